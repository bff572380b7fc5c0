"""Profiling: candidate and baselines timed in random order, interleaved, over several placements."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median

from sandbox.bench_client import Bench
from sandbox.clocks import BurstPlan, below_floor, contradicts, measure, plan_burst
from sandbox.gpu_watch import DeviceWatch
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.processes import close_all
from sandbox.verdict import Finding, VerifyCase
from sandbox.verifying import case_of, sent_outputs
from sandbox.wire import Message
from sandbox.workers import Death, Worker, WorkerDied

CANDIDATE = "candidate"
COPY = "copy"
_BATCH_US = 20_000.0
_MOST_CALLS = 6
_MOST_CALLS_A_REQUEST = 10
_LATENCY_CALLS = 5
_CLOCKED_ROUNDS = 3
_CONTRADICTIONS = 8
_RECALLED_ROUNDS = 2
_FIRST_ROUNDS = 5
_DROPPED_ROUNDS = 3
_FILL_MARGIN_US = 30.0
_LONGEST_FILL_US = 20_000.0
_LONGEST_US = 3.6e9

Samples = dict[str, list[float]]


@dataclass
class PlacementTimes:
    """What one placement gave: microseconds by side, and what was noticed on the way."""

    device: Samples = field(default_factory=dict)
    latency: Samples = field(default_factory=dict)
    warm: Samples = field(default_factory=dict)
    cases: list[VerifyCase] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    disturbed: str = ""


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
        self._random = random.SystemRandom()
        self._host_us: dict[str, float] = {}
        self._cost_us: dict[str, float] = {}
        self._bases = 1
        self._slots = 1
        self._output_bytes = 0
        self._plan: BurstPlan | None = None
        self._checks: list[tuple[float, float] | None] = []
        self._clocked = set(self._random.sample(range(_FIRST_ROUNDS), _CLOCKED_ROUNDS))
        self._recalled = set(self._random.sample(range(_FIRST_ROUNDS), _RECALLED_ROUNDS))

    def run(self, seconds: float, *, thorough: bool) -> PlacementTimes:
        """Place, warm up, and take rounds until there are enough samples or the time is used.

        Args:
            seconds: Time for the rounds.
            thorough: Also measure with warm caches.
        """
        self._place()
        times = PlacementTimes(device={side: [] for side in self._sides})
        for side in self._sides:
            self._host_us[side] = read_host_time(self._time(side, {"kind": "warm"}))
        self._rounds(times, time.monotonic() + seconds)
        if self._worker is not None and self._recalled:
            times.cases += [case for case in (self._batch(CANDIDATE, 1, keep=True)[1],) if case is not None]
        self._latencies(times)
        if thorough:
            times.warm = {CANDIDATE: self._batch(CANDIDATE, _LATENCY_CALLS, cold=False)[0]} if self._worker else {}
        if self._worker is not None and not times.disturbed:
            times.findings = self._findings(times, self._worker)
        return times

    def _place(self) -> None:
        number = self._worker.number if self._worker else 0
        request = {"op": "place", "worker": number, "transport": self._transport}
        placed, descriptors = self._bench.ask(request, self._limits.bench_seconds)
        try:
            if self._worker is not None:
                wanted = ("bases", "state", "structure", "slots", "rollable", "regions")
                send = {"op": "place", **{key: placed[key] for key in wanted}}
                self._worker.ask(send, self._patience(1), descriptors)
                self._worker.freeze()
        finally:
            close_all(descriptors)
        self._bases, self._slots = len(placed["bases"]), placed["slots"]
        self._output_bytes = placed["output_bytes"]
        if not placed["recallable"]:
            self._recalled.clear()

    def _rounds(self, times: PlacementTimes, deadline: float) -> None:
        taken = dropped = 0
        self._watch.trouble(self._own())
        while self._wants_more(times, taken, deadline):
            order = self._random.sample(self._sides, len(self._sides))
            calls = self._calls()
            clock_checks = len(self._checks)
            found = {side: self._round(side, calls, taken) for side in order}
            times.cases += [case for _, case in found.values() if case is not None]
            trouble = self._watch.trouble(self._own())
            if trouble:
                del self._checks[clock_checks:]
                dropped += 1
                times.disturbed = trouble if dropped > _DROPPED_ROUNDS + taken else ""
                if times.disturbed:
                    return
                continue
            for side, (us, _) in found.items():
                times.device[side] += us
            taken += 1

    def _wants_more(self, times: PlacementTimes, rounds: int, deadline: float) -> bool:
        fewest = min(len(samples) for samples in times.device.values())
        if fewest < self._tier.least_pairs or rounds < _FIRST_ROUNDS:
            return True
        return fewest < self._tier.pairs and time.monotonic() < deadline

    def _calls(self) -> int:
        """Choose how many calls the next batches have: at random, and fewer where calls are long."""
        longest = max(self._cost_us.values(), default=_BATCH_US)
        most = max(1, min(_MOST_CALLS, int(_BATCH_US / longest)))
        return self._random.randint(max(1, most // 2), most)

    def _round(self, side: str, calls: int, number: int) -> tuple[list[float], VerifyCase | None]:
        """Take a batch; in rounds the worker cannot know, its outputs are compared, or the clock is held against it."""
        if side != CANDIDATE or self._worker is None:
            return self._batch(side, calls)[0], None
        us, case = self._batch(side, calls, keep=number in self._recalled)
        if number in self._clocked:
            self._check_clock(self._worker, us)
        return us, case

    def _batch(
        self, side: str, calls: int, *, keep: bool = False, cold: bool = True
    ) -> tuple[list[float], VerifyCase | None]:
        turns = [self._turn() for _ in range(calls)]
        kept = calls - 1 if keep else -1  # the last: an output may share memory with inputs that a later call gets
        fill = min(_LONGEST_FILL_US, 1.3 * self._host_us[side] + _FILL_MARGIN_US) if self._on_gpu else 0.0
        request = {"kind": "device", "turns": turns, "keep": kept, "cold": cold, "fill_us": fill}
        started = time.perf_counter_ns()
        answer = self._time(side, request)
        self._cost_us[side] = (time.perf_counter_ns() - started) / 1000 / calls
        us = read_times(answer, calls)
        if kept < 0:
            return us, None
        recall = {"op": "recall", "turn": turns[kept], **sent_outputs(answer)}
        compared, _ = self._bench.ask(recall, self._limits.bench_seconds)
        return us, case_of("a timed call", compared)

    def _turn(self) -> list[float]:
        return [self._random.randrange(self._bases), self._random.randrange(self._slots), self._random.random()]

    def _latencies(self, times: PlacementTimes) -> None:
        """Time calls from an idle device; on the CPU that is what was timed already."""
        if not self._on_gpu:
            times.latency = {side: list(samples) for side, samples in times.device.items()}
            return
        for side in self._random.sample(self._sides, len(self._sides)):
            turns = [self._turn() for _ in range(_LATENCY_CALLS)]
            times.latency[side] = read_times(self._time(side, {"kind": "latency", "turns": turns}), _LATENCY_CALLS)

    def _check_clock(self, worker: Worker, claimed: list[float]) -> None:
        """Hold what the worker just said against this process's clock; a burst shows how long calls really take."""
        if self._plan is None:
            self._plan = plan_burst(median(claimed), self._host_us[CANDIDATE], self._on_gpu)
        measured = measure(self._plan, lambda count, fill: self._burst(worker, count, fill))
        said = fmean(claimed)
        self._checks.append((said, measured) if contradicts(said, self._plan, measured) else None)

    def _findings(self, times: PlacementTimes, worker: Worker) -> list[Finding]:
        """Return what the clock and the bytes say; the clock must have contradicted every time, and many times."""
        self._watch.trouble(self._own())
        while all(self._checks) and len(self._checks) < _CONTRADICTIONS:
            self._check_clock(worker, self._batch(CANDIDATE, self._calls())[0])
            if self._watch.trouble(self._own()):
                self._checks[-1] = None  # who was kept waiting contradicts nobody
        found = []
        if self._on_gpu:  # a CPU's caches and thread pools leave no floor to stand on
            copy_us = min(times.device[COPY])
            floor = below_floor(median(times.device[CANDIDATE]), self._output_bytes, copy_us, self._bytes_moved)
            found += [Finding("too-fast", "reject", floor)] if floor else []
        contradictions = [check for check in self._checks if check is not None]
        if len(contradictions) == len(self._checks):
            said, measured = contradictions[-1]
            evidence = (
                f"the worker reports {said:.1f} us a call, and by the judge's own clock a call takes {measured:.1f} us; "
                f"so {len(contradictions)} times of {len(self._checks)}"
            )
            found.append(Finding("clock", "reject", evidence))
        return found

    def _burst(self, worker: Worker, count: int, fill_us: float) -> None:
        with _thawed(worker):
            request = {"op": "time", "kind": "burst", "count": count, "fill_us": fill_us}
            worker.ask(request, self._patience(count))

    def _time(self, side: str, request: Message) -> Message:
        """Ask whoever runs a side; the candidate's process stands still while a baseline runs."""
        if side != CANDIDATE:
            return self._bench.ask({"op": "time", "side": side, **request}, self._limits.bench_seconds)[0]
        assert self._worker is not None  # the side is only there with a worker
        with _thawed(self._worker):
            return self._worker.ask({"op": "time", **request}, self._patience(_MOST_CALLS_A_REQUEST))

    def _own(self) -> set[int]:
        return {self._bench.pid, *(self._worker.family() if self._worker else ())}


@contextmanager
def _thawed(worker: Worker) -> Iterator[None]:
    worker.thaw()
    try:
        yield
    finally:
        worker.freeze()


def read_times(answer: Message, calls: int) -> list[float]:
    """Return the microseconds of a timed batch; raises ``WorkerDied`` for what cannot be times."""
    try:
        us = [float(value) for value in answer["us"]]
    except (KeyError, TypeError, ValueError):
        us = []
    if len(us) != calls or not all(0 < value < _LONGEST_US for value in us):
        raise WorkerDied(Death("sent an answer that makes no sense", ""))
    return us


def read_host_time(answer: Message) -> float:
    """Return how long the host needs to queue a call; it only decides how long the device is kept waiting."""
    value = answer.get("host_us")
    return min(_LONGEST_FILL_US, max(0.0, value)) if isinstance(value, float) and value == value else 0.0


def medians(placements: list[Samples], side: str) -> float | None:
    """Return the median over placements of a side's median, or None where it was not timed."""
    found = [median(samples[side]) for samples in placements if samples.get(side)]
    return median(found) if found else None


def by_side(placements: list[Samples]) -> Mapping[str, list[list[float]]]:
    """Return samples as ``[side][placement]``, of the sides that every placement has."""
    sides = [side for side in placements[0] if all(samples.get(side) for samples in placements)] if placements else []
    return {side: [samples[side] for samples in placements] for side in sides}
