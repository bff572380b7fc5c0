"""Keeps the time: leases the device, runs the placements, and turns them into a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sandbox.crew import Crew
from sandbox.gpu_watch import DeviceWatch
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.lease import lease
from sandbox.processes import ProcessLost
from sandbox.profile_report import COMPILE, EAGER, Modes, baselines, profile_report
from sandbox.profiling import COPY, PlacementRun, PlacementTimes, medians
from sandbox.progress import Progress, Stage
from sandbox.task import TaskSpec
from sandbox.verdict import Baseline, Finding, ProfileReport, Speedup, Tier, VerifyCase
from sandbox.workers import Worker

WORTH_A_SECOND_LOOK = 3.0
_AGREEMENT = 1.3


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
        self._amount: TierLimits = limits.quick if tier == "quick" else limits.full
        self._progress = progress

    def time_candidate(self, start_worker: Callable[[], Worker]) -> Timed:
        """Draw the tier's placements; where the candidate is much faster than every baseline, one more.

        Raises:
            WorkerDied, CandidateFailed: The candidate failed while it was timed.
        """
        modes = self._prepare(self._modes())
        placements: list[PlacementTimes] = []
        notes: list[str] = []
        with self._leased() as watch:
            for number in range(self._amount.placements):
                self._progress(Stage("profile", f"placement {number + 1} of {self._amount.placements}"))
                placements.append(self._place(start_worker, modes, watch))
                if placements[-1].disturbed or placements[-1].findings:
                    break
            gain = profile_report(placements, modes).speedup.get("best")
            if gain is not None and gain.ratio > WORTH_A_SECOND_LOOK and not placements[-1].findings:
                self._progress(Stage("profile", f"{gain.ratio:.1f} times the best baseline: measuring again"))
                placements.append(self._place(start_worker, modes, watch))
                notes += _second_look(gain.ratio, profile_report(placements[-1:], modes).speedup.get("best"))
        cases = [case for placement in placements for case in placement.cases]
        findings = tuple(finding for placement in placements for finding in placement.findings)
        return Timed(profile_report(placements, modes, notes), cases, findings)

    def time_original(self) -> TimedOriginal:
        """Time every baseline and the plain copy, on one placement."""
        modes = self._prepare(None)
        with self._leased() as watch:
            times = self._run(None, modes, watch).run(self._limits.quick.profile_seconds, thorough=False)
        notes = [f"{mode} took {seconds:.1f} s to get ready" for mode, seconds in modes.seconds.items() if seconds]
        if times.disturbed:
            notes.append(f"the times are not to be trusted: {times.disturbed}")
        return TimedOriginal(baselines([times], modes), medians([times.device], COPY) or 0.0, tuple(notes))

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
                self._crew.broken_modes[mode] = f"torch.compile took the process with it: {lost}"
                raise
            ready += [] if errors[mode] else [mode]
        failed = {mode: error for mode, error in errors.items() if error}
        return Modes(tuple(ready), {**failed, **self._crew.broken_modes}, seconds)

    def _prepare_one(self, mode: str) -> tuple[str, float]:
        limit = self._limits.compile_seconds
        request = {"op": "prepare", "mode": mode, "seconds": limit}
        told, _ = self._crew.bench.ask(request, limit + self._limits.bench_seconds)
        return told["error"], told["took"]

    def _place(self, start_worker: Callable[[], Worker], modes: Modes, watch: DeviceWatch) -> PlacementTimes:
        worker = start_worker()
        try:
            seconds = self._amount.profile_seconds / self._amount.placements
            return self._run(worker, modes, watch).run(seconds, thorough=self._tier == "full")
        finally:
            worker.stop()

    def _run(self, worker: Worker | None, modes: Modes, watch: DeviceWatch) -> PlacementRun:
        return PlacementRun(
            self._crew.bench,
            worker,
            list(modes.ready),
            transport=self._crew.transport,
            on_gpu=self._crew.on_gpu,
            limits=self._limits,
            patience=self._crew.patience,
            tier=self._amount,
            watch=watch,
            bytes_moved=self._crew.accepted["bytes_moved"],
        )

    @contextmanager
    def _leased(self) -> Iterator[DeviceWatch]:
        """Hold the device alone, and look at it."""

        def waiting() -> None:
            self._progress(Stage("profile", "waiting for another check to leave the device"))

        with lease(self._crew.leases, self._crew.device_name, waiting, self._crew.check):
            watch = self._crew.watch()
            try:
                yield watch
            finally:
                watch.close()


def _second_look(first: float, second: Speedup | None) -> list[str]:
    """Return what measuring a large gain again said; nothing where the second measurement has no clean samples."""
    if second is None:
        return []
    notes = [f"over {WORTH_A_SECOND_LOOK:.0f} times, so measured again on new inputs: {second.ratio:.2f} times"]
    disagree = max(second.ratio / first, first / second.ratio) > _AGREEMENT
    return [*notes, "the two measurements disagree"] if disagree else notes
