"""Profiling: candidate and baselines timed in random order, interleaved, over several placements."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from sandbox.bench_client import Bench
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.task import JudgedBy
from sandbox.timing.batches import draw_turn, fill_us, place_buffers, read_host_time, read_times
from sandbox.timing.clocks import below_floor
from sandbox.timing.cpu_watch import ran
from sandbox.timing.evenness import Evenness
from sandbox.timing.event_cost import event_cost, without_events
from sandbox.timing.gpu_watch import DeviceWatch
from sandbox.timing.held_clock import HeldClock
from sandbox.timing.kernel_runs import Launch, read_launches
from sandbox.timing.statistics import precise_enough
from sandbox.verdict import Finding, VerifyCase
from sandbox.verifying import case_of, sent_outputs
from sandbox.wire import Message
from sandbox.workers import CandidateFailed, Worker, WorkerDied

CANDIDATE = "candidate"
EAGER = "eager"
COPY = "copy"
GRAPH = "eager-cudagraph"
_BATCH_US = 20_000.0
_MOST_CALLS = 6
_MOST_CALLS_A_REQUEST = 10
_LATENCY_CALLS = 5
_WARM_CALLS = 5
_GRAPH_CALLS = 20
_CLOCKED_ROUNDS = 3
_RECALLED_ROUNDS = 2
_FIRST_ROUNDS = 5
_DROPPED_ROUNDS = 3
_MORE_BATCHES = 16

Samples = dict[str, list[float]]


@dataclass
class PlacementTimes:
    """What one placement gave: microseconds by side, and what was noticed on the way.

    Attributes:
        graph: Of the candidate, replayed as a CUDA graph; ``graph_error`` says why it is not.
        event_us: What two events cost here, which the device times (also warm, and as a graph) are without; 0 on the CPU.
        launches: What one call of the candidate put on the device.
        failed: Why a baseline could not be timed here, by mode.
    """

    device: Samples = field(default_factory=dict)
    latency: Samples = field(default_factory=dict)
    warm: Samples = field(default_factory=dict)
    graph: list[float] = field(default_factory=list)
    graph_error: str = ""
    event_us: float = 0.0
    launches: list[Launch] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    cases: list[VerifyCase] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    disturbed: str = ""

    def judged(self, by: JudgedBy) -> Samples:
        """Return the samples that the task is judged by."""
        return self.latency if by == "latency" else self.device


@dataclass(frozen=True)
class Extras:
    """What else a placement measures: with warm caches; on a GPU the candidate's kernels, and it as a CUDA graph."""

    warm: bool = False
    kernels: bool = False
    graph: bool = False


NO_EXTRAS = Extras()


class PlacementRun:
    """Times every side once over, on new buffers.

    Args:
        bench: Times the baselines.
        worker: Times the candidate; None to time the baselines alone.
        sides: The baselines' modes to time.
        transport: How tensors cross: ``host`` or ``cuda``.
        on_gpu: Whether the device is a GPU.
        limits: Time limits.
        patience: Seconds that the worker may take for so many calls.
        tier: How many samples.
        watch: Looks at the device between rounds.
        bytes_moved: What ``copy`` moves.
        judged_by: Which time has to be precise; latency is then taken in every round.
    """

    def __init__(
        self,
        bench: Bench,
        worker: Worker | None,
        sides: list[str],
        *,
        transport: str,
        on_gpu: bool,
        limits: JudgeLimits,
        patience: Callable[[int], float],
        tier: TierLimits,
        watch: DeviceWatch,
        bytes_moved: int,
        judged_by: JudgedBy = "device",
    ) -> None:
        self._bench = bench
        self._worker = worker
        self._sides = [*([CANDIDATE] if worker else []), *sides, COPY]
        self._transport = transport
        self._on_gpu = on_gpu
        self._limits = limits
        self._patience = patience
        self._tier = tier
        self._watch = watch
        self._bytes_moved = bytes_moved
        self._latency_counts = on_gpu and judged_by == "latency"
        self._random = random.SystemRandom()
        self._host_us: dict[str, float] = {}
        self._cost_us: dict[str, float] = {}
        self._bases = 1
        self._slots = 1
        self._output_bytes = 0
        self._event_us = 0.0
        self._clocks = {"device": HeldClock("device", self._burst, queued=on_gpu)}
        if self._latency_counts:
            self._clocks["latency"] = HeldClock("latency", self._settled_burst, queued=False)
        if worker is not None and not on_gpu:  # a cold call hides that a warm one takes a fraction of it
            self._clocks["warm"] = HeldClock("warm", self._burst, queued=False, ran=lambda: ran(set(worker.family())))
        self._evenness = Evenness()
        self._clocked = set(self._random.sample(range(_FIRST_ROUNDS), _CLOCKED_ROUNDS))
        self._recalled: set[int] = set()
        self._recalled_last = False

    def run(self, seconds: float, extras: Extras = NO_EXTRAS) -> PlacementTimes:
        """Place, warm up, and take rounds until they are precise enough or the time is used.

        Args:
            seconds: Time for the rounds.
            extras: What else is measured once they are taken.
        """
        self._place()
        times = PlacementTimes(failed=self._warm_up())
        if self._on_gpu:
            times.event_us = self._event_us = event_cost(self._bench, self._limits.bench_seconds)
        times.device = {side: [] for side in self._sides}
        times.latency = {side: [] for side in self._sides}
        self._rounds(times, time.monotonic() + seconds)
        if self._worker is not None and self._recalled_last:
            times.cases += [case for case in (self._batch(CANDIDATE, 1, keep=True)[1],) if case is not None]
        self._latencies(times)
        if extras.warm:
            times.warm = {side: self._batch(side, _WARM_CALLS, cold=False)[0] for side in self._shuffled()}
        if self._worker is not None:
            self._worker.finish()
        if self._worker is not None and not times.disturbed:
            times.findings = self._findings(times)
            if self._on_gpu and not times.findings:
                self._look_inside(times, self._worker, extras)
        return times

    def _place(self) -> None:
        placed = place_buffers(self._bench, self._worker, self._transport, self._limits, self._patience)
        if self._worker is not None:
            self._worker.freeze()
        self._bases, self._slots = len(placed["bases"]), placed["slots"]
        self._output_bytes = placed["output_bytes"]
        recalls = placed["recalls"]
        self._recalled = set(self._random.sample(range(_FIRST_ROUNDS), min(recalls, _RECALLED_ROUNDS)))
        self._recalled_last = recalls > _RECALLED_ROUNDS

    def _warm_up(self) -> dict[str, str]:
        """Make every side warm at this placement's addresses; leave out baselines that fail there, and say why."""
        failed = {}
        for side in list(self._sides):
            error = str(self._time(side, {"kind": "graph"}).get("error", "")) if side == GRAPH else ""
            answer = {"error": error} if error else self._time(side, {"kind": "warm"})
            if side != CANDIDATE and answer.get("error"):
                failed[side] = str(answer["error"])
                self._sides.remove(side)
            else:
                self._host_us[side] = read_host_time(answer)
        return failed

    def _look_inside(self, times: PlacementTimes, worker: Worker, extras: Extras) -> None:
        """List the candidate's kernels, then time it as a CUDA graph; nothing comes after, and neither can fail it."""
        doing = "its kernels cannot be listed"
        try:
            if extras.kernels:
                with _thawed(worker):
                    told = worker.ask({"op": "launches"}, self._patience(_MOST_CALLS_A_REQUEST))
                times.launches = read_launches(told)
            doing = "it cannot be captured into a CUDA graph"
            if extras.graph:
                self._time(CANDIDATE, {"kind": "graph"})
                times.graph, case = self._batch(CANDIDATE, _GRAPH_CALLS, keep=bool(self._recalled), graph=True)
                if case is not None and not case.ok:
                    times.graph_error = f"replayed as a CUDA graph it answers wrongly: {case.reason}"
        except (CandidateFailed, WorkerDied) as failure:
            times.graph_error = f"{doing}: {failure}"

    def _rounds(self, times: PlacementTimes, deadline: float) -> None:
        taken = dropped = 0
        self._watch.trouble(self._own())
        while self._wants_more(times, taken, deadline):
            calls = self._calls()
            checks = {kind: clock.count for kind, clock in self._clocks.items()}
            found = {side: self._round(side, calls, taken) for side in self._shuffled()}
            times.cases += [case for _, _, case in found.values() if case is not None]
            trouble = self._watch.trouble(self._own())
            if trouble:
                for kind, count in checks.items():
                    self._clocks[kind].forget_since(count)
                dropped += 1
                times.disturbed = trouble if dropped > _DROPPED_ROUNDS + taken else ""
                if times.disturbed:
                    return
                continue
            for side, (us, latency, _) in found.items():
                times.device[side] += us
                times.latency[side] += latency
                if side in (CANDIDATE, EAGER):
                    self._evenness.take(latency if self._latency_counts else us, candidate=side == CANDIDATE)
            taken += 1

    def _wants_more(self, times: PlacementTimes, rounds: int, deadline: float) -> bool:
        samples = times.latency if self._latency_counts else times.device
        fewest = min(len(taken) for taken in samples.values())
        if fewest < self._tier.least_pairs or rounds < _FIRST_ROUNDS:
            return True
        if fewest >= self._tier.pairs or time.monotonic() >= deadline:
            return False
        held = CANDIDATE if self._worker else EAGER
        others = [side for side in samples if side not in (held, COPY)] or [held]
        return not all(precise_enough(samples[held], samples[side]) for side in others)

    def _calls(self) -> int:
        """Choose how many calls the next batches have: at random, and fewer where calls are long."""
        longest = max(self._cost_us.values(), default=_BATCH_US)
        most = max(1, min(_MOST_CALLS, int(_BATCH_US / longest)))
        return self._random.randint(max(1, most // 2), most)

    def _round(self, side: str, calls: int, number: int) -> tuple[list[float], list[float], VerifyCase | None]:
        """Take a batch; in rounds the worker cannot know, its outputs are compared, or the clock is held against it."""
        candidate = side == CANDIDATE and self._worker is not None
        us, case = self._batch(side, calls, keep=candidate and number in self._recalled)
        latency = self._latency(side, calls) if self._latency_counts else []
        if candidate and number in self._clocked:
            self._check_clocks(us, latency)
        return us, latency, case

    def _batch(
        self, side: str, calls: int, *, keep: bool = False, cold: bool = True, graph: bool = False
    ) -> tuple[list[float], VerifyCase | None]:
        turns = [self._turn() for _ in range(calls)]
        kept = calls - 1 if keep else -1  # the last: an output may share memory with inputs that a later call gets
        fill = fill_us(self._host_us[side]) if self._on_gpu else 0.0
        request = {"kind": "device", "turns": turns, "keep": kept, "cold": cold, "fill_us": fill, "graph": graph}
        started = time.perf_counter_ns()
        answer = self._time(side, request)
        self._cost_us[side] = (time.perf_counter_ns() - started) / 1000 / calls
        us = without_events(read_times(answer, calls), self._event_us)
        if kept < 0:
            return us, None
        recall = {"op": "recall", "turn": turns[kept], **sent_outputs(answer)}
        compared, _ = self._bench.ask(recall, self._limits.bench_seconds)
        return us, case_of("a timed call", compared)

    def _turn(self) -> list[float]:
        return draw_turn(self._random, self._bases, self._slots)

    def _latency(self, side: str, calls: int) -> list[float]:
        turns = [self._turn() for _ in range(calls)]
        return read_times(self._time(side, {"kind": "latency", "turns": turns}), calls)

    def _latencies(self, times: PlacementTimes) -> None:
        """Time calls from an idle device, unless the rounds did; on the CPU that is what was timed already."""
        if not self._on_gpu:
            times.latency = {side: list(samples) for side, samples in times.device.items()}
        elif not self._latency_counts:
            times.latency = {side: self._latency(side, _LATENCY_CALLS) for side in self._shuffled()}

    def _shuffled(self) -> list[str]:
        return self._random.sample(self._sides, len(self._sides))

    def _check_clocks(self, device: list[float], latency: list[float]) -> None:
        self._clocks["device"].check(device, self._host_us[CANDIDATE])
        if latency:
            self._clocks["latency"].check(latency, 0.0)
        if "warm" in self._clocks:
            self._clocks["warm"].check(self._batch(CANDIDATE, _WARM_CALLS, cold=False)[0], 0.0)

    def _findings(self, times: PlacementTimes) -> list[Finding]:
        """Return what the clocks and the bytes say; a clock must have contradicted every time, and many times."""
        self._watch.trouble(self._own())
        while any(clock.doubts for clock in self._clocks.values()):
            calls = self._calls()
            latency = self._latency(CANDIDATE, calls) if self._latency_counts else []
            self._check_clocks(self._batch(CANDIDATE, calls)[0], latency)
            if self._watch.trouble(self._own()):
                for clock in self._clocks.values():
                    clock.excuse_last()
        found = []
        if self._on_gpu:  # a CPU's caches and thread pools leave no floor to stand on
            copy_us = min(times.device[COPY])
            floor = below_floor(median(times.device[CANDIDATE]), self._output_bytes, copy_us, self._bytes_moved)
            found += [Finding("too-fast", "reject", floor)] if floor else []
        evidence = [text for clock in self._clocks.values() if (text := clock.evidence())]
        found += [Finding("clock", "reject", text) for text in evidence]
        uneven = self._unevenness()
        return found + ([Finding("window", "reject", uneven)] if uneven else [])

    def _unevenness(self) -> str:
        """Return how uneven batches are, after some more where all were."""
        for _ in range(_MORE_BATCHES):
            if not self._evenness.doubts:
                break
            take = self._latency if self._latency_counts else lambda side, calls: self._batch(side, calls)[0]
            self._evenness.take(take(CANDIDATE, _MOST_CALLS), candidate=True)
            if self._watch.trouble(self._own()):
                self._evenness.excuse_last()
        return self._evenness.evidence()

    def _burst(self, count: int, fill_us: float) -> None:
        self._time(CANDIDATE, {"kind": "burst", "count": count, "fill_us": fill_us, "each": False}, count)

    def _settled_burst(self, count: int, fill_us: float) -> None:
        """Make calls that each begin on an idle device: with warm caches, so they take no longer than a cold one."""
        self._time(CANDIDATE, {"kind": "burst", "count": count, "fill_us": fill_us, "each": True}, count)

    def _time(self, side: str, request: Message, calls: int = _MOST_CALLS_A_REQUEST) -> Message:
        """Ask whoever runs a side; the candidate's process stands still while a baseline runs."""
        if side != CANDIDATE:
            asked = {"graph": side == GRAPH, **request, "op": "time", "side": side}
            return self._bench.ask(asked, self._limits.bench_seconds)[0]
        assert self._worker is not None  # the side is only there with a worker
        with _thawed(self._worker):
            return self._worker.ask({"op": "time", **request}, self._patience(calls))

    def _own(self) -> set[int]:
        return {self._bench.pid, *(self._worker.family() if self._worker else ())}


@contextmanager
def _thawed(worker: Worker) -> Iterator[None]:
    worker.thaw()
    try:
        yield
    finally:
        worker.freeze()


def medians(placements: list[Samples], side: str) -> float | None:
    """Return the median over placements of a side's median, or None where it was not timed."""
    found = [median(samples[side]) for samples in placements if samples.get(side)]
    return median(found) if found else None


def by_side(placements: list[Samples]) -> Mapping[str, list[list[float]]]:
    """Return samples as ``[side][placement]``, of the sides that every placement has."""
    sides = [side for side in placements[0] if all(samples.get(side) for samples in placements)] if placements else []
    return {side: [samples[side] for samples in placements] for side in sides}
