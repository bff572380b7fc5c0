"""Times several variants of a candidate against each other: workers beside each other, their calls interleaved.

Only one of them runs at a time; the others stand still. Every placement is new workers with new buffers, as for a verdict, so
that the interval between two variants is over placements.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TypeVar

from sandbox.errors import TaskError
from sandbox.loading import LoadFailed
from sandbox.looking.study import Study
from sandbox.timing.batches import draw_turn, fill_us, place_buffers, read_host_time, read_times
from sandbox.timing.event_cost import event_cost, without_events
from sandbox.timing.gpu_watch import DeviceWatch
from sandbox.verifying import describe_death, describe_failure
from sandbox.wire import Message
from sandbox.workers import CandidateFailed, Worker, WorkerDied

T = TypeVar("T")
_BATCH_US = 20_000.0
_MOST_CALLS = 4
_DROPPED_ROUNDS = 3

Starters = Mapping[str, Callable[[], Worker]]
"""Starts the worker of each variant."""


@dataclass
class Race:
    """What a race gave.

    Attributes:
        samples: Microseconds of each variant, by placement; every variant has every placement.
        failed: Variants that fell out, and why.
        disturbed: Why the times are not to be trusted, or empty.
    """

    samples: dict[str, list[list[float]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    disturbed: str = ""

    def us(self, name: str) -> float | None:
        """Return the median over placements of a variant's median."""
        placements = self.samples.get(name)
        return median(median(samples) for samples in placements) if placements else None


def run_race(study: Study, starters: Starters, watch: DeviceWatch, placements: int) -> Race:
    """Time the variants on so many placements; one that fails falls out, with all it gave."""
    if study.crew.crowded:
        raise TaskError(
            "Variants are timed side by side, each with inputs of its own, and this task's leave no room for that.",
            where=study.crew.spec.id,
            next_step="Give smaller inputs.",
        )
    race = Race()
    for number in range(placements):
        left = {name: start for name, start in starters.items() if name not in race.failed}
        if not left or race.disturbed:
            break
        where = f"placement {number + 1} of {placements}" if placements > 1 else "a first look"
        study.tell("profile", f"{where}: {len(left)} variants against each other")
        _Placement(study, watch, race).run(left)
    for name in race.failed:
        race.samples.pop(name, None)
    return race


class _Runner:
    """A variant's worker with its buffers."""

    def __init__(self, study: Study, worker: Worker) -> None:
        self._study = study
        self._random = random.SystemRandom()
        self.worker = worker
        self.cost_us = _BATCH_US
        self._bases = self._slots = 1
        self._host_us = self._event_us = 0.0

    def place(self) -> None:
        """Take inputs and state into buffers of its own, and warm up."""
        crew, limits = self._study.crew, self._study.crew.limits
        placed = place_buffers(crew.bench, self.worker, crew.transport, limits, crew.patience)
        self._bases, self._slots = len(placed["bases"]), placed["slots"]
        self._host_us = read_host_time(self._ask({"kind": "warm"}))
        self._event_us = event_cost(crew.bench, limits.bench_seconds) if crew.on_gpu else 0.0

    def time(self, calls: int) -> list[float]:
        """Return the microseconds of so many calls."""
        turns = [draw_turn(self._random, self._bases, self._slots) for _ in range(calls)]
        fill = fill_us(self._host_us) if self._study.crew.on_gpu else 0.0
        started = time.perf_counter_ns()
        answer = self._ask({"kind": "device", "turns": turns, "keep": -1, "cold": True, "fill_us": fill})
        self.cost_us = (time.perf_counter_ns() - started) / 1000 / calls
        return without_events(read_times(answer, calls), self._event_us)

    def _ask(self, request: Message) -> Message:
        self.worker.thaw()
        try:
            return self.worker.ask({"op": "time", **request}, self._study.crew.patience(_MOST_CALLS + 8))
        finally:
            self.worker.freeze()


class _Placement:
    """One placement of all variants."""

    def __init__(self, study: Study, watch: DeviceWatch, race: Race) -> None:
        self._study = study
        self._watch = watch
        self._race = race
        self._random = random.SystemRandom()
        self._runners: dict[str, _Runner] = {}

    def run(self, starters: Starters) -> None:
        """Start every worker, take rounds, and add what they gave to the race."""
        try:
            for name in self._random.sample(list(starters), len(starters)):
                self._attempt(name, partial(self._start, name, starters[name]))
            taken = self._rounds()
        finally:
            for runner in self._runners.values():
                runner.worker.stop()
        if not self._race.disturbed:
            for name, samples in taken.items():
                self._race.samples.setdefault(name, []).append(samples)

    def _start(self, name: str, start: Callable[[], Worker]) -> None:
        runner = _Runner(self._study, start())
        self._runners[name] = runner
        runner.place()

    def _rounds(self) -> dict[str, list[float]]:
        limits = self._study.crew.limits.quick
        taken: dict[str, list[float]] = {name: [] for name in self._runners}
        deadline = time.monotonic() + limits.profile_seconds
        rounds = dropped = 0
        self._watch.trouble(self._own())
        while self._runners and (rounds < limits.least_pairs or self._wants_more(taken, deadline)):
            found = self._round()
            if trouble := self._watch.trouble(self._own()):
                dropped += 1
                self._race.disturbed = trouble if dropped > _DROPPED_ROUNDS + rounds else ""
                if self._race.disturbed:
                    break
                continue
            for name, us in found.items():
                taken[name] += us
            rounds += 1
        return {name: samples for name, samples in taken.items() if name in self._runners and samples}

    def _wants_more(self, taken: Mapping[str, list[float]], deadline: float) -> bool:
        fewest = min(len(taken[name]) for name in self._runners)
        return fewest < self._study.crew.limits.quick.pairs and time.monotonic() < deadline

    def _round(self) -> dict[str, list[float]]:
        """Take a batch of every variant, in random order."""
        longest = max(runner.cost_us for runner in self._runners.values())
        calls = max(1, min(_MOST_CALLS, int(_BATCH_US / longest)))
        order = self._random.sample(list(self._runners), len(self._runners))
        found = {name: self._attempt(name, partial(self._runners[name].time, calls)) for name in order}
        return {name: us for name, us in found.items() if us is not None}

    def _attempt(self, name: str, work: Callable[[], T]) -> T | None:
        """Do something with a variant; one that fails falls out."""
        try:
            return work()
        except LoadFailed as failure:
            self._race.failed[name] = str(failure)
        except WorkerDied as died:
            self._race.failed[name] = f"it {describe_death(died.death, self._study.candidate.files)} while being timed"
        except CandidateFailed as failure:
            self._race.failed[name] = describe_failure(failure)
        if runner := self._runners.pop(name, None):
            runner.worker.stop()
        return None

    def _own(self) -> set[int]:
        family = [pid for runner in self._runners.values() for pid in runner.worker.family()]
        return {self._study.crew.bench.pid, *family}
