"""One placement, with a bench that answers by a script: which sides are timed, how long, and what is left out."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.task import JudgedBy
from sandbox.timing.gpu_watch import NoWatch
from sandbox.timing.profiling import NO_EXTRAS, Extras, PlacementRun, PlacementTimes

TIER = TierLimits(cases=1, placements=1, profile_seconds=60.0, pairs=40, least_pairs=6)
US = {"eager": 40.0, "eager-cudagraph": 35.0, "compile": 20.0, "reduce-overhead": 18.0, "copy": 9.0}
EVENTS = 3.0


class ScriptedBench:
    """Answers as a bench does: times of each side with some scatter, and errors where it is told to fail."""

    pid = os.getpid()

    def __init__(self, scatter: float, failing: dict[str, str]) -> None:
        self.asked: list[dict[str, Any]] = []
        self._scatter = scatter
        self._failing = failing
        self._noise = random.Random(1)

    def ask(self, request: dict[str, Any], _: float) -> tuple[dict[str, Any], list[int]]:
        self.asked.append(request)
        if request["op"] == "place":
            return {"bases": [[], []], "slots": 2, "output_bytes": 64, "recalls": 3}, []
        if request["op"] == "empty":
            return {"us": [EVENTS] * request["count"]}, []
        side, kind = request["side"], request["kind"]
        if self._failing.get(side) == kind:
            return {"error": f"{side} fails"}, []
        more = 30.0 if kind == "latency" else 0.0
        scattered = [US[side] * self._noise.lognormvariate(0, self._scatter) + more for _ in request.get("turns", [])]
        return {"us": scattered, "host_us": 5.0}, []


def placed(
    scatter: float = 0.001, by: JudgedBy = "device", extras: Extras = NO_EXTRAS, **failing: str
) -> tuple[PlacementTimes, ScriptedBench]:
    bench = ScriptedBench(scatter, {side.replace("_", "-"): kind for side, kind in failing.items()})
    run = PlacementRun(
        bench,  # type: ignore[arg-type]  # a bench is a process
        None,
        [side for side in US if side != "copy"],
        transport="host",
        on_gpu=True,
        limits=JudgeLimits(),
        patience=lambda _: 1.0,
        tier=TIER,
        watch=NoWatch(""),
        bytes_moved=128,
        judged_by=by,
    )
    return run.run(60.0, extras), bench


def test_precise_times_end_early_and_wild_ones_go_on() -> None:
    precise, wild = placed(0.0005)[0], placed(0.2)[0]
    assert TIER.least_pairs <= len(precise.device["eager"]) < TIER.pairs
    assert len(wild.device["eager"]) >= TIER.pairs


@pytest.mark.parametrize(("failing", "kind"), [("eager_cudagraph", "graph"), ("reduce_overhead", "warm")])
def test_a_baseline_that_fails_on_new_buffers_is_left_out_and_named(failing: str, kind: str) -> None:
    times, _ = placed(**{failing: kind})
    side = failing.replace("_", "-")
    assert times.failed == {side: f"{side} fails"}
    assert set(times.device) == set(US) - {side}
    assert all(times.device.values())


def test_the_graph_is_captured_before_it_is_timed_and_only_that_side_is_replayed() -> None:
    _, bench = placed()
    graph = [request["kind"] for request in bench.asked if request.get("side") == "eager-cudagraph"]
    assert graph[:2] == ["graph", "warm"]
    assert {request["side"] for request in bench.asked if request.get("graph")} == {"eager-cudagraph"}


def test_latencies_are_taken_in_every_round_where_the_task_is_judged_by_them() -> None:
    device, latency = placed()[0], placed(by="latency")[0]
    assert {len(samples) for samples in device.latency.values()} == {5}
    assert all(len(latency.latency[side]) == len(latency.device[side]) for side in US)
    assert min(latency.latency["eager"]) > 60.0


def test_warm_times_of_every_side_where_they_are_wanted() -> None:
    assert placed()[0].warm == {}
    times, bench = placed(extras=Extras(warm=True))
    assert {side: len(samples) for side, samples in times.warm.items()} == dict.fromkeys(US, 5)
    assert sum(request.get("cold") is False for request in bench.asked) == len(US)


def test_every_time_on_the_device_is_without_what_events_cost_and_latency_as_it_is() -> None:
    times, _ = placed(0.0, extras=Extras(warm=True))
    assert times.event_us == EVENTS
    for side, us in US.items():
        assert set(times.device[side]) == set(times.warm[side]) == {us - EVENTS}
        assert set(times.latency[side]) == {us + 30.0}
