"""What a trace says of streams: who waits for whom, and which work nobody orders; on traces of the tracer's form.

The traces are written by hand, in the form of torch's profiler; ``tests/gpu/test_streams.py`` reads real ones.
"""

from __future__ import annotations

from typing import Any

import pytest
from warpsmith_harness.streams import framed, stray_findings, strays, timeline

HOME, SIDE, OTHER, OWN = 7, 13, 14, 20
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<unsigned char>>"


class Written:
    """A trace in the making: each call of the API gets the next number."""

    def __init__(self) -> None:
        self.number = 100
        self.events: list[dict[str, Any]] = []

    def work(self, stream: int, name: str = "own_kernel", kind: str = "kernel") -> None:
        self.number += 1
        self._add(kind, name, {"stream": stream, "correlation": self.number})

    def graph(self, *streams: int) -> None:
        self.number += 1
        self._add("cuda_runtime", "cudaGraphLaunch", {"cbid": 311, "correlation": self.number})
        for stream in streams:
            self._add("kernel", "node", {"stream": stream, "correlation": self.number})

    def record(self, stream: int) -> tuple[int, int]:
        self.number += 1
        return stream, self.number

    def wait(self, stream: int, event: tuple[int, int]) -> None:
        self._event_sync("Stream Wait Event", stream, event)

    def wait_here(self, event: tuple[int, int]) -> None:
        self._event_sync("Event Sync", event[0], event)

    def join(self, stream: int, other: int) -> None:
        self.wait(stream, self.record(other))

    def synchronise(self, stream: int | None = None) -> None:
        self.number += 1
        kind = "Context Sync" if stream is None else "Stream Sync"
        at = 4294967295 if stream is None else stream
        self._add("cuda_sync", kind, {"cuda_sync_kind": kind, "stream": at, "correlation": self.number})

    def _event_sync(self, kind: str, stream: int, event: tuple[int, int]) -> None:
        self.number += 1
        details = {"cuda_sync_kind": kind, "stream": stream, "correlation": self.number}
        details |= {"wait_on_stream": event[0], "wait_on_cuda_event_record_corr_id": event[1]}
        self._add("cuda_sync", kind, details)

    def _add(self, kind: str, name: str, details: dict[str, Any]) -> None:
        self.events.insert(0, {"ph": "X", "cat": kind, "name": name, "ts": 1.0, "dur": 1.0, "args": details})

    def begin(self) -> None:
        """What the judge does before the call."""
        for joined in (True, False):
            self.work(HOME, FILL)
            self.join(OWN, HOME)
            self.work(OWN, FILL)
            if joined:
                self.join(HOME, OWN)
        self.work(HOME, FILL)
        self.join(HOME, OWN)

    def rules(self) -> list[str]:
        """What is found once the judge's last kernel is queued and the device idle."""
        self.work(HOME, FILL)
        self.synchronise()
        return [each["rule"] for each in stray_findings(timeline({"traceEvents": self.events}))]


@pytest.fixture
def call() -> Written:
    written = Written()
    written.begin()
    return written


def test_one_stream_is_ordered(call: Written) -> None:
    call.work(HOME)
    call.work(HOME, "Memcpy DtoD (Device -> Device)", "gpu_memcpy")
    assert call.rules() == []


def test_forked_and_joined_by_events(call: Written) -> None:
    call.join(SIDE, HOME)
    call.work(HOME)
    call.work(SIDE)
    call.join(HOME, SIDE)
    assert call.rules() == []


def test_joined_through_another_stream(call: Written) -> None:
    call.join(SIDE, HOME)
    call.work(SIDE)
    call.join(OTHER, SIDE)
    call.work(OTHER)
    call.join(HOME, OTHER)
    assert call.rules() == []


@pytest.mark.parametrize("how", ["stream", "device", "event"])
def test_joined_by_the_host(call: Written, how: str) -> None:
    call.synchronise(HOME)
    call.work(SIDE)
    if how == "event":
        call.wait_here(call.record(SIDE))
    else:
        call.synchronise(SIDE if how == "stream" else None)
    assert call.rules() == []


@pytest.mark.parametrize("kind", ["kernel", "gpu_memcpy", "gpu_memset"])
def test_nobody_waits(call: Written, kind: str) -> None:
    call.work(HOME)
    call.join(SIDE, HOME)
    call.work(SIDE, kind=kind)
    assert call.rules() == ["late-write"]


def test_waited_for_before_the_last_work(call: Written) -> None:
    call.join(SIDE, HOME)
    call.work(SIDE)
    event = call.record(SIDE)
    call.work(SIDE)
    call.wait(HOME, event)
    assert call.rules() == ["late-write"]


def test_waited_for_by_a_stream_that_nobody_waits_for(call: Written) -> None:
    call.join(SIDE, HOME)
    call.work(SIDE)
    call.join(OTHER, SIDE)
    assert call.rules() == ["late-write"]


def test_an_event_of_an_earlier_call_orders_nothing(call: Written) -> None:
    call.join(SIDE, HOME)
    call.work(SIDE)
    call.wait(HOME, (SIDE, -1))
    call.wait(HOME, (SIDE, 3))
    assert call.rules() == ["late-write"]


def test_begun_before_the_inputs_are_there(call: Written) -> None:
    call.work(SIDE)
    call.join(HOME, SIDE)
    assert call.rules() == ["early-read"]


def test_queued_by_somebody_else_after_the_return() -> None:
    written = Written()
    written.begin()
    written.join(SIDE, HOME)
    written.work(HOME)
    written.work(HOME, FILL)
    written.work(SIDE)
    written.synchronise()
    lines = timeline({"traceEvents": written.events})
    frame = framed(lines)
    assert frame is not None
    assert [each.stream for each in strays(lines, frame)[1]] == [SIDE]


def test_the_branches_of_a_graph_hang_together(call: Written) -> None:
    call.graph(HOME, 31, 32)
    assert call.rules() == []


def test_a_graph_that_nobody_waits_for(call: Written) -> None:
    call.join(SIDE, HOME)
    call.graph(SIDE, 31)
    assert call.rules() == ["late-write"]


def test_a_graph_on_streams_that_nobody_knows_is_said(call: Written) -> None:
    call.graph(31, 32)
    assert call.rules() == ["side-stream"]


def test_streams_that_wait_for_each_other_in_turn_end(call: Written) -> None:
    for _ in range(3):
        call.join(SIDE, OTHER)
        call.join(OTHER, SIDE)
        call.work(SIDE)
    assert call.rules() == ["late-write", "early-read"]


def test_a_tracer_that_tells_no_waits_is_said() -> None:
    written = Written()
    written.begin()
    written.events = [event for event in written.events if event["cat"] != "cuda_sync"]
    written.work(SIDE)
    assert written.rules() == ["no-stream-trace"]
