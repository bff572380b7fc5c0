"""What came of a landing end to end: the developer's script before and now, step by step and loss by loss."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from sandbox.hotspots.rank import Hotspot
from sandbox.hotspots.ranking import Ranking

RESAMPLES = 2000
LEAST_WINDOWS = 3
LOSS_BLOCKS = 10
SAME_LOSS = 1e-3
"""A difference of mean losses under this share of them is none, however small the noise is."""

_T_OF_TEN = 2.262

Stretches = Sequence[tuple[int, float]]
"""Steps and seconds of stretches that were left alone."""


@dataclass(frozen=True)
class ClassChange:
    """One class before and now: its share of the device's time, and its forward call; None where it was not called."""

    name: str
    share_before: float | None
    share_now: float | None
    call_us_before: float | None
    call_us_now: float | None


@dataclass(frozen=True)
class LossChange:
    """The scalars on which ``backward`` was called, over as many steps as both runs made.

    Attributes:
        steps: How many.
        before, now: Their means.
        same: Whether the difference is within the noise of the two runs.
    """

    steps: int
    before: float
    now: float
    same: bool


@dataclass(frozen=True)
class Comparison:
    """Two runs of one script.

    Attributes:
        step_ms_before, step_ms_now: Mean time of a step that was left alone.
        speedup: Of a step, before over now; with a 95 % interval over stretches of steps in ``low`` and ``high``, which are
            None where there were too few. What differs from run to run as a whole is not in it.
        classes: Those that landed; without any, those that took the most time.
        landings: What the landed kernels counted, by package: ``fused``, ``original``, ``launches`` and ``reasons``.
        loss: None where no loss was seen in both.
        notes: What makes the two runs less comparable.
        conclusion: One sentence.
    """

    step_ms_before: float | None
    step_ms_now: float | None
    speedup: float | None
    low: float | None
    high: float | None
    classes: tuple[ClassChange, ...]
    landings: Mapping[str, Mapping[str, Any]]
    loss: LossChange | None
    notes: tuple[str, ...]
    conclusion: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {"schema": "warpsmith.comparison/1", **asdict(self)}


def compare(before: Ranking, now: Ranking) -> Comparison:
    """Compare a run with an earlier one of the same script."""
    speedup, low, high = _speedup(before.pace.stretches, now.pace.stretches)
    landings = dict(now.recording.processes[0].landings)
    loss = _loss(before.recording.processes[0].losses, now.recording.processes[0].losses)
    classes = _classes(before, now, landings)
    return Comparison(
        before.pace.step_ms,
        now.pace.step_ms,
        speedup,
        low,
        high,
        classes,
        landings,
        loss,
        tuple(_notes(before, now)),
        _conclusion(speedup, low, high, landings, loss, _most(classes) if landings else None),
    )


def _speedup(before: Stretches, now: Stretches) -> tuple[float | None, float | None, float | None]:
    """Return the ratio of mean step times, and its bootstrap interval; the draw is seeded."""
    if not before or not now:
        return None, None, None
    ratio = _step(before) / _step(now)
    if min(len(before), len(now)) < LEAST_WINDOWS:
        return ratio, None, None
    draw = random.Random(0)  # noqa: S311 - a bootstrap
    ratios = sorted(
        _step(draw.choices(before, k=len(before))) / _step(draw.choices(now, k=len(now))) for _ in range(RESAMPLES)
    )
    return ratio, ratios[int(0.025 * RESAMPLES)], ratios[int(0.975 * RESAMPLES)]


def _step(stretches: Stretches) -> float:
    return sum(seconds for _, seconds in stretches) / sum(steps for steps, _ in stretches)


def _classes(before: Ranking, now: Ranking, landings: Mapping[str, Mapping[str, Any]]) -> tuple[ClassChange, ...]:
    then = {each.key: each for each in before.hotspots}
    landed = {(record["module"], record["class"]) for record in landings.values()}
    chosen = [each for each in now.hotspots if (each.module, each.name) in landed]
    chosen = chosen or [each for each in now.hotspots if each.origin != "torch"][:3]
    return tuple(_change(each, then.get(each.key)) for each in chosen)


def _change(now: Hotspot, before: Hotspot | None) -> ClassChange:
    return ClassChange(
        now.name, before.share if before else None, now.share, before.device_us if before else None, now.device_us
    )


def _loss(before: Sequence[float], now: Sequence[float]) -> LossChange | None:
    """Compare losses step by step; noise is how the difference varies between a tenth of the steps and the next."""
    steps = min(len(before), len(now))
    if steps == 0:
        return None
    mean_before, mean_now = fmean(before[:steps]), fmean(now[:steps])
    differences = [b - a for a, b in zip(before[:steps], now[:steps], strict=True)]
    scale = max(abs(mean_before), abs(mean_now))
    same = abs(mean_now - mean_before) <= SAME_LOSS * scale
    if not same and steps >= 2 * LOSS_BLOCKS:
        size = steps // LOSS_BLOCKS
        blocks = [fmean(differences[at * size : (at + 1) * size]) for at in range(LOSS_BLOCKS)]
        same = abs(fmean(blocks)) <= _T_OF_TEN * stdev(blocks) / LOSS_BLOCKS**0.5
    return LossChange(steps, mean_before, mean_now, same)


def _notes(before: Ranking, now: Ranking) -> list[str]:
    then, first = before.recording.processes[0], now.recording.processes[0]
    facts = {"GPU": (then.gpu, first.gpu), "torch": (then.torch, first.torch)}
    notes = [
        f"another {name}: {old or 'none'} before, {new or 'none'} now"
        for name, (old, new) in facts.items()
        if old != new
    ]
    if then.step_name != first.step_name:
        notes.append(f"a step is another: it ended with {then.step_name} before, and with {first.step_name} now")
    notes += ["now the command failed"] if now.run.status else []
    busy = [(before.run.others, "before"), (now.run.others, "now")]
    if told := [f"{others:.1f} processors {when}" for others, when in busy if others]:
        notes.append(f"other programs kept busy: {', '.join(told)}; compare again when it is quieter")
    return notes


def _most(classes: Sequence[ClassChange]) -> float | None:
    """Return how many times as fast steps would be if what landed took no time at all (Amdahl), or None if nobody knows."""
    share = sum(each.share_before or 0.0 for each in classes)
    return 1 / (1 - share) if 0 < share < 1 else None


def _mostly_original(landings: Mapping[str, Mapping[str, Any]]) -> str:
    """Say of which classes more calls ran the original than the kernels, and why most of those did; or nothing."""
    told = []
    for record in landings.values():
        fused, original = record["fused"], record["original"]
        if original > fused:
            why = max(record["reasons"], key=record["reasons"].get, default="")
            told.append(
                f"; only {fused} of {fused + original} calls of {record['class']} ran its kernels{f': {why}' * bool(why)}"
            )
    return "".join(told)


def _conclusion(
    speedup: float | None,
    low: float | None,
    high: float | None,
    landings: Mapping[str, Mapping[str, Any]],
    loss: LossChange | None,
    most: float | None,
) -> str:
    unused = [record["class"] for record in landings.values() if not record["fused"]]
    changed = "; but the loss is another, by more than noise" if loss is not None and not loss.same else ""
    idle = f"; the kernels of {', '.join(unused)} did not run" if unused else _mostly_original(landings)
    if not landings:
        idle = "; nothing that landed was loaded"
    if speedup is None:
        return f"Nothing can be said: no steps were left alone to time{idle}{changed}."
    if low is None or high is None:
        return f"Steps look {speedup:.2f} times as fast, over too few to be sure{idle}{changed}."
    if low > 1 and most is not None and speedup > most:
        idle += f"; what landed can make {most:.2f} of it at most, so everything else was faster too, as on a quieter machine"
    if low > 1:
        return f"Steps are {speedup:.2f} times as fast{idle}{changed}."
    if high < 1:
        return f"Steps are slower, {1 / speedup:.2f} times as long{idle}{changed}."
    return f"Nothing came of it that could be told from noise{idle}{changed}."
