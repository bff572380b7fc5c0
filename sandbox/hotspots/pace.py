"""How fast the program went while nothing was recorded, and what recording cost it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sandbox.hotspots.recording import Recording, Window


@dataclass(frozen=True)
class Pace:
    """Steps and their time.

    Attributes:
        steps: How many steps were left alone.
        step_ms: Mean time of those, by the host's clock; None where there were none.
        stretches: Steps and seconds of each stretch of them.
        overhead: By which share recorded stretches were slower than their neighbours; None where there are none to compare.
    """

    steps: int
    step_ms: float | None
    stretches: tuple[tuple[int, float], ...]
    overhead: float | None


def pace_of(recording: Recording) -> Pace:
    """Return the pace of the first process that called modules; the others of a distributed run keep step with it."""
    windows = [window for window in recording.processes[0].windows if window.steps]
    plain = [window for window in windows if window.kind == "plain"]
    steps = sum(window.steps for window in plain)
    mean = sum(window.seconds for window in plain) / steps * 1000 if steps else None
    compared = [window for window in windows if window.kind in ("plain", "recorded")]
    return Pace(steps, mean, tuple((window.steps, window.seconds) for window in plain), _overhead(compared))


def _overhead(windows: Sequence[Window]) -> float | None:
    """Return the median of recorded stretches over the mean of their two neighbours: what drifts slowly cancels out."""
    ratios = []
    for before, window, after in zip(windows, windows[1:], windows[2:], strict=False):
        if window.kind == "recorded":
            ratios.append(2 * _step_seconds(window) / (_step_seconds(before) + _step_seconds(after)) - 1)
    return median(ratios) if ratios else None


def _step_seconds(window: Window) -> float:
    return window.seconds / window.steps
