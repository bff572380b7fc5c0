"""Takes trials: verdict after verdict on one pair, with the machine left alone and with all its cores busy."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sandbox.errors import EnvironmentFault
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.machine.pool import Pool
from sandbox.progress import silent
from sandbox.verdict import Tier, Verdict
from sandbox.wire import device_name
from tests.gpu.figures.load import load
from tests.gpu.figures.pairs import Pair, faster_gelu, same_gelu
from tests.gpu.figures.results import Line, Results

ELEMENTS = {"aa20": 10_747_904, "aa8": 3_407_872, "power": 10_747_904}
"""41 and 13 MiB of floats, which a GELU on an H200 takes about 21 and 8.4 µs for."""

CPU_ELEMENTS = {"aa20": 131_072, "aa8": 16_384, "power": 1_048_576}
WANTED_RATIO = 0.9
ENOUGH = 1_000
_PROTOCOL_SHARE = 0.1
_PROTOCOL_SECONDS = 20.0
_PROTOCOL_TRIALS = 200
"""Of each usual protocol, figure and load: they are there to be compared with, and not what is to be shown."""
_TOLD_SECONDS = 10.0
_FIRST_SAVINGS = (0.08, 0.16)
_CALIBRATION_TRIES = 3
_LEAST_SLOPE = 0.4
_MOST_SLOPE = 1.2
_USUAL = JudgeLimits()


class Campaign:
    """Trials of the figures of whole verdicts on one device.

    Args:
        results: Where they are written.
        device: ``cpu`` or ``cuda:N``.
        loads: Of ``quiet`` and ``busy``, in turn.
        tiers: Of ``full`` and ``quick``, alternating.
        enough: Trials of each kind after which no more are taken.
        limits: Of the judge; verifying is left out of them.
    """

    def __init__(
        self,
        results: Results,
        device: str,
        loads: Sequence[str],
        tiers: Sequence[Tier],
        enough: int = ENOUGH,
        limits: JudgeLimits = _USUAL,
    ) -> None:
        self._results = results
        self._device = device
        self._loads = loads
        self._tiers = tiers
        self._enough = enough
        self._limits = replace(limits, quick=replace(limits.quick, cases=0), full=replace(limits.full, cases=0))
        self._elements = CPU_ELEMENTS if device == "cpu" else ELEMENTS

    def take(self, figure: str, seconds: float) -> None:
        """Take trials of a figure for so many seconds, or until there are enough; each is written as it comes."""
        loads = [name for name in self._loads if self._lacking(figure, name)]
        if not loads:
            print(f"{figure}: there are {self._enough} trials of each kind already", flush=True)
            return
        ending = time.monotonic() + seconds
        elements = self._elements[figure]
        pair = faster_gelu(figure, elements, 0.1) if figure == "power" else same_gelu(figure, elements)
        with _judging(pair, self._device, self._limits) as (judge, candidate):
            self._results.begin(judge.environment)
            if figure == "power":
                saved = self._calibrated(judge, candidate, elements)
                (candidate / "model_new.py").write_text(faster_gelu(figure, elements, saved).candidate)
            for number, name in enumerate(loads):
                share = (ending - time.monotonic()) / (len(loads) - number)
                with load(name):
                    until = time.monotonic() + share
                    if self._wants_protocols(figure, name):
                        seconds = min(_PROTOCOL_SECONDS, _PROTOCOL_SHARE * share)
                        self._compare_protocols(figure, name, judge, candidate, seconds)
                    self._trials(judge, candidate, figure, name, until)

    def _trials(self, judge: Judge, candidate: Path, figure: str, name: str, until: float) -> None:
        told = time.monotonic()
        taken: list[Line] = []
        while (lacking := self._lacking(figure, name)) and (not taken or time.monotonic() < until):
            taken += [self._trial(judge, candidate, figure, name, tier) for tier in lacking]
            if time.monotonic() > told + _TOLD_SECONDS:
                told = time.monotonic()
                print(f"{figure} {name}: {progress(taken)}", flush=True)
        print(f"{figure} {name}: {progress(taken)}", flush=True)

    def _trial(self, judge: Judge, candidate: Path, figure: str, name: str, tier: Tier) -> Line:
        verdict = judge.check(candidate, tier)
        return self._results.add("trial", figure=figure, load=name, tier=tier, **measured(verdict))

    def _lacking(self, figure: str, name: str) -> list[Tier]:
        """Return the tiers of which there are too few trials so far."""
        counts = dict.fromkeys(self._tiers, 0)
        for line in self._results.measured_alike():
            if line["kind"] == "trial" and (line["figure"], line["load"]) == (figure, name) and line["tier"] in counts:
                counts[line["tier"]] += 1
        return [tier for tier in self._tiers if counts[tier] < self._enough]

    def _wants_protocols(self, figure: str, name: str) -> bool:
        """Whether there is a usual protocol of which few trials are known so far."""
        counts: dict[str, int] = {}
        for line in self._results.lines():
            if line["kind"] == "protocol" and (line["figure"], line["load"]) == (figure, name) and "ratios" in line:
                counts[line["method"]] = counts.get(line["method"], 0) + len(line["ratios"])
        return min(counts.values(), default=0) < _PROTOCOL_TRIALS

    def _compare_protocols(self, figure: str, name: str, judge: Judge, candidate: Path, seconds: float) -> None:
        """Let the usual protocols time the same pair under the same load, alone on the device as verdicts are."""
        script = Path(__file__).with_name("protocols.py")
        arguments = [judge.spec.path, candidate / "model_new.py", self._device, round(seconds, 2)]
        command = [sys.executable, "-W", "ignore", script, *map(str, arguments)]
        pool = Pool(device_name(judge.environment.get("gpu_uuid", ""), self._device), figure, lambda: None)
        with pool.exclusive("profile", "timing", silent), _ended(command) as process:
            assert process.stdout is not None
            for text in process.stdout:
                self._results.add("protocol", figure=figure, load=name, **json.loads(text))
            if process.wait():
                print(f"{figure} {name}: the usual protocols ended with code {process.returncode}", flush=True)

    def _calibrated(self, judge: Judge, candidate: Path, elements: int) -> float:
        """Return the share of elements to save so that the candidate takes 0.9 of the time; measured once a device."""
        device = judge.environment["device"]
        for line in self._results.lines():
            if line["kind"] == "calibration" and line["device"] == device:
                return float(line["saved"])
        times = [self._time_share(judge, candidate, elements, saved) for saved in _FIRST_SAVINGS]
        first, last = _FIRST_SAVINGS
        slope = (times[0] - times[1]) / (last - first)
        if not _LEAST_SLOPE < slope < _MOST_SLOPE:  # noise would be kept for good
            raise EnvironmentFault(f"Times do not follow the work: {times} at {_FIRST_SAVINGS} of it saved.")
        saved = first + (times[0] - WANTED_RATIO) / slope
        self._results.add("calibration", figure="power", device=device, saved=round(saved, 4), times=times)
        print(f"power: a candidate that computes {saved:.1%} less should take {WANTED_RATIO} of the time", flush=True)
        return saved

    def _time_share(self, judge: Judge, candidate: Path, elements: int, saved: float) -> float:
        (candidate / "model_new.py").write_text(faster_gelu("power", elements, saved).candidate)
        for _ in range(_CALIBRATION_TRIES):
            profile = judge.check(candidate, "full").profile
            if profile is not None and not profile.disturbed and "eager" in profile.speedup:
                return 1 / profile.speedup["eager"].ratio
        raise EnvironmentFault("The candidate that calibrates could not be timed undisturbed.")


@contextmanager
def _ended(command: Sequence[str | Path]) -> Iterator[subprocess.Popen[str]]:
    """Run a program whose output is read, and end it with the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _judging(pair: Pair, device: str, limits: JudgeLimits) -> Iterator[tuple[Judge, Path]]:
    """Open a judge on a pair; yield it with the candidate's folder."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-figures-") as name:
        folder = Path(name)
        spec, candidate = pair.write(folder, device)
        with Judge(
            spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch", limits=limits
        ) as judge:
            yield judge, candidate


def measured(verdict: Verdict) -> Line:
    """Return what a trial's line keeps of its verdict."""
    line: Line = {"reward": verdict.reward, "wall": round(verdict.seconds.total, 2)}
    rejections = (
        [finding.rule for finding in verdict.guard.findings if finding.severity == "reject"] if verdict.guard else []
    )
    if rejections or verdict.reward == -1:
        line.update(rejections=rejections, reason=verdict.reason)
    profile = verdict.profile
    if profile is None:
        return line
    line.update(us=round(profile.device_us, 3), latency_us=round(profile.latency_us, 2))
    if profile.disturbed:
        line["disturbed"] = profile.disturbed
    gain, eager = profile.speedup.get("eager"), profile.baselines.get("eager")
    if gain is not None and eager is not None:
        line.update(
            ratio=round(gain.ratio, 4), low=round(gain.low, 4), high=round(gain.high, 4), eager_us=eager.device_us
        )
    return line


def progress(taken: Sequence[Line]) -> str:
    """Say in one line how a run goes."""
    if not taken:
        return "no trial yet"
    timed = [line for line in taken if "ratio" in line]
    faster = sum(line["ratio"] * 0.95 > 1 for line in timed)
    raised = sum((line["reward"] or 0) > 1 for line in taken)
    disturbed = sum("disturbed" in line for line in taken)
    each = sum(line["wall"] for line in taken) / len(taken)
    us = f", {sorted(line['us'] for line in timed)[len(timed) // 2]:.1f} us" if timed else ""
    return (
        f"{len(taken)} trials{us}, {faster} read 5 % faster, {raised} rewards raised, "
        f"{disturbed} disturbed, {each:.1f} s each"
    )
