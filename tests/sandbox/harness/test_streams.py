"""What is said of work on other streams, from a trace and from what a CUDA graph of the call held.

The traces are written by hand, in the form that torch's profiler was seen to give; ``tests/gpu/test_streams.py`` takes
real ones, and real captures.
"""

from __future__ import annotations

from typing import Any

import pytest
from warpsmith_harness.streams import Timeline, Work, order_findings, timeline

HOME, SIDE, OTHER = 7, 13, 14
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<unsigned char>>"


class Written:
    """A trace in the making, behind the judge's first marker: each call of the API gets the next number."""

    def __init__(self) -> None:
        self.number = 100
        self.events: list[dict[str, Any]] = []
        self.work(HOME, FILL)

    def work(self, stream: int, name: str = "own_kernel", kind: str = "kernel") -> None:
        self._add(kind, name, {"stream": stream})

    def join(self, stream: int, event: int) -> None:
        """One stream waits for an event: the tracer does not say which stream recorded it."""
        self._add("cuda_runtime", "cudaEventRecordWithFlags", {"cbid": 370})
        unknown = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1, "wait_on_cuda_event_id": event}
        self._add(
            "cuda_sync", "Stream Wait Event", {"cuda_sync_kind": "Stream Wait Event", "stream": stream, **unknown}
        )

    def synchronise(self, stream: int | None = None) -> None:
        kind = "Context Sync" if stream is None else "Stream Sync"
        self._add("cuda_sync", kind, {"cuda_sync_kind": kind, "stream": -1 if stream is None else stream})

    def _add(self, kind: str, name: str, details: dict[str, Any]) -> None:
        self.number += 1
        details = {**details, "correlation": self.number}
        self.events.insert(0, {"ph": "X", "cat": kind, "name": name, "ts": 1.0, "dur": 1.0, "args": details})

    def read(self) -> Timeline:
        """Return what is read once the judge's last marker is queued and the tracer has waited for the device."""
        self.work(HOME, FILL)
        self.synchronise()
        self.synchronise()
        found = timeline({"traceEvents": self.events})
        assert found is not None
        return found


@pytest.fixture
def trace() -> Written:
    return Written()


def test_a_call_on_its_callers_stream_leaves_nothing_loose(trace: Written) -> None:
    trace.work(HOME)
    trace.work(HOME, "Memcpy DtoD", "gpu_memcpy")
    told = trace.read()
    assert [work.name for work in told.works] == ["own_kernel", "Memcpy DtoD"]
    assert told.loose() == []


def test_what_waits_for_an_event_may_wait_for_any_stream(trace: Written) -> None:
    trace.join(SIDE, 3)
    trace.work(SIDE)
    trace.join(HOME, 4)
    assert [work.stream for work in trace.read().loose()] == [SIDE]


@pytest.mark.parametrize("stream", [SIDE, None], ids=["its stream", "the device"])
def test_what_the_host_waited_for_is_done(trace: Written, stream: int | None) -> None:
    trace.work(SIDE)
    trace.synchronise(stream)
    assert trace.read().loose() == []


def test_work_behind_the_hosts_wait_is_loose(trace: Written) -> None:
    trace.work(SIDE, "first")
    trace.synchronise(SIDE)
    trace.work(SIDE, "second")
    assert [work.name for work in trace.read().loose()] == ["second"]


def test_a_wait_for_another_stream_is_none_for_this(trace: Written) -> None:
    trace.work(SIDE)
    trace.synchronise(OTHER)
    trace.synchronise(HOME)
    assert [work.stream for work in trace.read().loose()] == [SIDE]


def test_a_trace_without_both_markers_is_not_read() -> None:
    assert timeline({"traceEvents": []}) is None
    cut = Written()
    cut.work(SIDE)
    assert timeline({"traceEvents": cut.events}) is None


def rules(captured: int | None, why: str = "", name: str = "own_kernel") -> list[tuple[str, str]]:
    loose = [Work(name, SIDE, 105)]
    found = order_findings(loose, 2, captured, why, lambda each: "cudnn" in each)
    return [(each["rule"], each["severity"]) for each in found]


def test_a_graph_that_holds_all_of_a_call_proves_its_order() -> None:
    assert rules(2) == [("joined-streams", "label")]
    assert rules(3) == [("joined-streams", "label")]


def test_what_is_not_in_the_graph_did_not_wait_for_the_caller() -> None:
    assert rules(1) == [("early-read", "reject")]


def test_a_capture_that_cannot_end_has_work_that_nobody_waits_for() -> None:
    assert rules(None, "AcceleratorError: CUDA error: capturing stream has unjoined work") == [("late-write", "reject")]


def test_what_can_be_told_in_neither_way_is_rejected_but_a_librarys_own_streams() -> None:
    why = "AcceleratorError: CUDA error: operation not permitted when stream is capturing"
    assert rules(None, why) == [("unordered-stream", "reject")]
    assert rules(None, why, "cudnn_rnn_cell") == [("unordered-stream", "label")]
