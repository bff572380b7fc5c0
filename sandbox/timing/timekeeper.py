"""Keeps the time: leases the device, runs the placements, and turns them into a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sandbox.crew import Crew
from sandbox.judge_limits import JudgeLimits
from sandbox.original import NOT_TRUSTED
from sandbox.processes import ProcessLost
from sandbox.progress import Progress, Stage
from sandbox.reward import undecided
from sandbox.task import TaskSpec
from sandbox.timing.gpu_watch import DeviceWatch, LeasedWatch
from sandbox.timing.patience import waits
from sandbox.timing.profile_report import BEST, COMPILE, Modes, about_modes, baselines, profile_report, ratios
from sandbox.timing.profiling import CANDIDATE, COPY, EAGER, GRAPH, Extras, PlacementRun, PlacementTimes, medians
from sandbox.verdict import Baseline, Finding, ProfileReport, Speedup, Tier, VerifyCase
from sandbox.workers import Worker

WORTH_A_SECOND_LOOK = 3.0
_AGREEMENT = 1.3
_PATIENCE = 2.0
"""Placements beyond a tier's number begin within so many times its measuring time."""


@dataclass(frozen=True)
class Timed:
    """What timing a candidate gave: its report, comparisons of timed calls, and findings of the clocks."""

    report: ProfileReport
    cases: list[VerifyCase]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class TimedOriginal:
    """What timing the reference alone gave."""

    baselines: dict[str, Baseline]
    copy_us: float
    notes: tuple[str, ...]


class Timekeeper:
    """Times one candidate, or the reference alone.

    Args:
        crew: The judge's processes.
        spec: The task.
        tier: How thoroughly.
        limits: Time limits.
        progress: Told what is being done or waited for.
    """

    def __init__(self, crew: Crew, spec: TaskSpec, tier: Tier, limits: JudgeLimits, progress: Progress) -> None:
        self._crew = crew
        self._spec = spec
        self._tier = tier
        self._limits = limits
        self._amount = limits.of(tier)
        self._progress = progress
        self._failed: dict[str, str] = {}
        self._waits = waits(tier)

    def time_candidate(self, start_worker: Callable[[], Worker], make_ready: Callable[[int], None]) -> Timed:
        """Draw the tier's placements, more while the next reward is undecided, and one more where the gain is large.

        Args:
            start_worker: Starts the worker of a placement.
            make_ready: Told how many will be wanted, before anything is timed: several at once start in the time of one.

        Raises:
            WorkerDied, CandidateFailed: The candidate failed while it was timed.
        """
        modes = self._prepare(self._modes())
        placements: list[PlacementTimes] = []
        dropped: list[PlacementTimes] = []
        notes: list[str] = []
        if self._crew.room_for(self._amount.placements):
            with self._crew.pool.shared("profile", "readying workers for", self._progress):
                make_ready(self._amount.placements)
        with self._leased() as watch:
            started = time.monotonic()
            while not placements or self._goes_on(placements, modes, started):
                self._draw(placements, start_worker, modes, watch)
                if placements[-1].disturbed and len(dropped) < len(self._waits):
                    self._wait_after(placements[-1].disturbed, self._waits[len(dropped)])
                    dropped.append(placements.pop())
            if dropped:
                notes.append(f"{len(dropped)} more were disturbed, and drawn again")
            if placements[-1].disturbed and len(placements) > self._amount.placements:
                dropped.append(placements.pop())
                notes.append(
                    f"the machine stayed busy: the times rest on the {len(placements)} that were not disturbed"
                )
            more = len(placements) - self._amount.placements
            if more > 0:
                notes.append(f"{more} of them drawn because the others left it open whether the next reward is earned")
            gain = self._report(placements, modes).speedup.get(BEST)
            if gain is not None and gain.ratio > WORTH_A_SECOND_LOOK and not placements[-1].findings:
                self._progress(Stage("profile", f"{gain.ratio:.1f} times the best baseline: measuring again"))
                self._draw(placements, start_worker, modes, watch)
                notes += _second_look(gain.ratio, self._report(placements[-1:], modes).speedup.get(BEST))
            notes += watch.notes()
        self._renew_bench()
        cases = [case for placement in (*dropped, *placements) for case in placement.cases]
        findings = tuple(finding for placement in placements for finding in placement.findings)
        return Timed(self._report(placements, modes, notes), cases, findings)

    def time_original(self) -> TimedOriginal:
        """Time every baseline and the plain copy, on one placement."""
        modes = self._prepare(None)
        with self._leased() as watch:
            times = self._run(None, modes, watch).run(self._limits.quick.profile_seconds, Extras(warm=True))
            watched = watch.notes()
        self._leave_out(times)
        self._renew_bench()
        known = baselines([times], self._timed(modes), self._spec.judged_by)
        notes = [*about_modes(known, self._spec.judged_by), *watched]
        if times.disturbed:
            notes.append(f"{NOT_TRUSTED}: {times.disturbed}")
        return TimedOriginal(known, medians([times.device], COPY) or 0.0, tuple(notes))

    def time_form(self, start_worker: Callable[[], Worker], bytes_moved: int) -> PlacementTimes:
        """Time the candidate beside eager on one placement, in another form of the task's class.

        Raises:
            WorkerDied, CandidateFailed: The candidate failed while it was timed.
        """
        with self._leased() as watch:
            return self._place(start_worker, Modes((EAGER,), {}, {}), watch, Extras(), bytes_moved)

    def _draw(
        self,
        placements: list[PlacementTimes],
        start_worker: Callable[[], Worker],
        modes: Modes,
        watch: LeasedWatch,
    ) -> None:
        """Draw one more placement, and tell what is known so far."""
        self._crew.check()
        number, of = len(placements) + 1, max(len(placements) + 1, self._amount.placements)
        self._progress(Stage("profile", f"placement {number} of {of}"))
        full = self._tier == "full"
        graph = full and not self._crew.crowded and not any(placement.graph_error for placement in placements)
        extras = Extras(warm=full, kernels=full and not placements, graph=graph)
        placements.append(self._place(start_worker, modes, watch, extras))
        by = self._spec.judged_by
        self._leave_out(placements[-1])
        us = medians([placement.judged(by) for placement in placements], CANDIDATE)
        if us is None:
            return
        found = {name: round(ratio, 3) for name, ratio in ratios(placements, self._timed(modes), by).items()}
        partial = {"placement": number, "of": of, f"{by}_us": round(us, 3), "speedup": found}
        told = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in found.items())
        self._progress(Stage("profile", f"placement {number} of {of}: {us:.1f} us{told and f', {told}'}", partial))

    def _wait_after(self, trouble: str, seconds: float) -> None:
        """Say that a placement is drawn again, after a wait for a quieter moment; whatever disturbs is often over in one."""
        wait = f" in {seconds:.0f} s, when the machine may be quieter" if seconds else ""
        self._progress(Stage("profile", f"drawing that placement again{wait}: {trouble}"))
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._crew.check()
            time.sleep(min(left, 0.2))

    def _goes_on(self, placements: list[PlacementTimes], modes: Modes, started: float) -> bool:
        """Whether another placement is needed, and there is time for it."""
        amount, count = self._amount, len(placements)
        if placements[-1].disturbed or placements[-1].findings:
            return False
        if count < amount.placements:
            return True
        if count >= amount.placements + amount.more_placements:
            return False
        in_time = time.monotonic() - started < _PATIENCE * amount.profile_seconds
        return in_time and undecided(self._report(placements, modes)) != ""

    def _report(self, placements: list[PlacementTimes], modes: Modes, notes: Sequence[str] = ()) -> ProfileReport:
        multiprocessor = self._crew.environment.get("multiprocessor", {})
        return profile_report(placements, self._timed(modes), self._spec.judged_by, multiprocessor, notes)

    def _leave_out(self, times: PlacementTimes) -> None:
        """Time no baseline again that failed on a placement's buffers."""
        self._failed.update(times.failed)

    def _timed(self, modes: Modes) -> Modes:
        """Return the modes without those that failed while they were timed."""
        ready = tuple(mode for mode in modes.ready if mode not in self._failed)
        return Modes(ready, {**modes.errors, **self._failed}, modes.seconds)

    def _renew_bench(self) -> None:
        """Begin with a new bench where this one failed to capture a graph: torch leaves such a process half way."""
        if GRAPH in self._failed:
            self._give_up(GRAPH, self._failed[GRAPH])

    def _give_up(self, mode: str, why: str) -> None:
        self._crew.broken_modes[mode] = why
        self._crew.bench.stop()

    def _modes(self) -> list[str] | None:
        return [EAGER, COMPILE] if self._tier == "quick" else None

    def _prepare(self, wanted: list[str] | None) -> Modes:
        """Compile the baselines that are wanted and not ready; a mode that cannot be is named with the reason."""
        ready: list[str] = []
        errors: dict[str, str] = {}
        seconds: dict[str, float] = {}
        for mode in [mode for mode in self._crew.modes if wanted is None or mode in wanted]:
            self._progress(Stage("profile", f"preparing the baseline {mode}"))
            try:
                errors[mode], seconds[mode] = self._prepare_one(mode)
            except ProcessLost as lost:
                if not lost.killed:
                    self._crew.broken_modes[mode] = f"preparing it took the process with it: {lost.what}"
                raise
            if mode == GRAPH and errors[mode]:
                self._give_up(mode, errors[mode])
            ready += [] if errors[mode] else [mode]
        failed = {mode: error for mode, error in errors.items() if error}
        return Modes(tuple(ready), {**failed, **self._crew.broken_modes}, seconds)

    def _prepare_one(self, mode: str) -> tuple[str, float]:
        limit = self._limits.preparing(mode)
        request = {"op": "prepare", "mode": mode, "seconds": limit}
        with self._crew.pool.shared("profile", "compiling the baselines of", self._progress):
            told, _ = self._crew.bench.ask(request, limit + self._limits.bench_seconds)
        return told["error"], told["took"]

    def _place(
        self,
        start_worker: Callable[[], Worker],
        modes: Modes,
        watch: LeasedWatch,
        extras: Extras,
        bytes_moved: int | None = None,
    ) -> PlacementTimes:
        worker = start_worker()
        try:
            seconds = self._amount.profile_seconds / self._amount.placements
            times = self._run(worker, modes, watch, bytes_moved).run(seconds, extras)
            times.disturbed = times.disturbed or watch.lost()
            return times
        finally:
            worker.stop()

    def _run(
        self, worker: Worker | None, modes: Modes, watch: DeviceWatch, bytes_moved: int | None = None
    ) -> PlacementRun:
        return PlacementRun(
            self._crew.bench,
            worker,
            list(self._timed(modes).ready),
            transport=self._crew.transport,
            on_gpu=self._crew.on_gpu,
            limits=self._limits,
            patience=self._crew.patience,
            tier=self._amount,
            watch=watch,
            bytes_moved=self._crew.accepted["bytes_moved"] if bytes_moved is None else bytes_moved,
            judged_by=self._spec.judged_by,
        )

    def _leased(self) -> AbstractContextManager[LeasedWatch]:
        """Hold the device alone, and look at it."""
        return self._crew.alone("profile", "timing", self._progress)


def _second_look(first: float, second: Speedup | None) -> list[str]:
    """Return what measuring a large gain again said; nothing where the second measurement has no clean samples."""
    if second is None:
        return []
    notes = [f"over {WORTH_A_SECOND_LOOK:.0f} times, so measured again on new inputs: {second.ratio:.2f} times"]
    disagree = max(second.ratio / first, first / second.ratio) > _AGREEMENT
    return [*notes, "the two measurements disagree"] if disagree else notes
