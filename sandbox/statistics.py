"""How much faster the candidate is, with an interval that knows that placements differ.

Where buffers lie and which process runs them shift every time of a placement by the same few percent, so the interval
is over placements and not over samples: repeats inside one placement cannot make it narrower than placements differ.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean, median, stdev

from sandbox.verdict import Speedup

Placements = Sequence[Sequence[float]]
"""Times of one side, ``placements[p][i]``, in any unit."""

RESAMPLES = 500
SHORT_US = 8.0
SHORT_GAIN = 1.15

_T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_Z = 1.959964


def speedup(candidate: Placements, baseline: Placements, resamples: int = RESAMPLES) -> Speedup:
    """Return baseline time over candidate time: the median over placements of the ratio of medians.

    The two-sided 95 % interval is the wider, at each end, of a cluster bootstrap (placements, then samples inside them)
    and Student's t over the placements' log ratios: a bootstrap of a handful of clusters alone is too narrow. One
    placement has no spread to learn from, so its interval covers the repeats only and not the placement's own shift.

    Args:
        candidate: Positive times by placement.
        baseline: As many placements of positive times, each measured beside the candidate's of the same index.
        resamples: How many bootstrap samples are drawn. The draw is seeded: equal data give equal intervals.

    Raises:
        ValueError: A side has no placement, one of them is empty or holds a time that is not positive, or their
            numbers differ.
    """
    ours, theirs = _checked(candidate), _checked(baseline)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} placements of the candidate and {len(theirs)} of the baseline: they must pair")
    logs = [math.log(median(b) / median(c)) for c, b in zip(ours, theirs, strict=True)]
    centre = median(logs)
    intervals = [_bootstrap(ours, theirs, resamples)]
    if len(logs) > 1:
        half = _t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
        intervals.append((fmean(logs) - half, fmean(logs) + half))
    low = min(centre, *(interval[0] for interval in intervals))
    high = max(centre, *(interval[1] for interval in intervals))
    return Speedup(math.exp(centre), math.exp(low), math.exp(high))


def too_short_to_call(candidate_us: float, baseline_us: float, gain: Speedup) -> bool:
    """Whether a gain is smaller than what placement alone can make at this length: under 15 % below 8 µs."""
    return min(candidate_us, baseline_us) < SHORT_US and 1 < gain.ratio < SHORT_GAIN


def _checked(placements: Placements) -> list[list[float]]:
    """Return every placement's samples in ascending order."""
    if not placements or not all(placements):
        raise ValueError("a side without samples cannot be compared")
    if not all(0 < sample < math.inf for samples in placements for sample in samples):
        raise ValueError("times must be positive and finite")
    return [sorted(samples) for samples in placements]


def _bootstrap(ours: list[list[float]], theirs: list[list[float]], resamples: int) -> tuple[float, float]:
    """Return the 2.5 and 97.5 % quantiles of the resampled median log ratio; the samples are sorted."""
    draw = random.Random(f"{[len(s) for s in ours]} {[len(s) for s in theirs]}")  # noqa: S311  # reproducible, not secret
    pairs = list(zip(ours, theirs, strict=True))
    found = sorted(
        median(
            math.log(_resampled_median(b, draw) / _resampled_median(c, draw))
            for c, b in draw.choices(pairs, k=len(pairs))
        )
        for _ in range(resamples)
    )
    return found[int(0.025 * (resamples - 1))], found[math.ceil(0.975 * (resamples - 1))]


def _resampled_median(ordered: list[float], draw: random.Random) -> float:
    """Draw the median of a resample without drawing the resample.

    The median of n uniform draws follows Beta((n + 1) / 2, (n + 1) / 2), and indexes the ordered samples.
    """
    shape = (len(ordered) + 1) / 2
    return ordered[int(len(ordered) * draw.betavariate(shape, shape))]


def _t_quantile(freedom: int) -> float:
    """Return Student's 97.5 % quantile, beyond ten degrees by its expansion around the normal one."""
    if freedom <= len(_T_QUANTILES):
        return _T_QUANTILES[freedom - 1]
    first = (_Z**3 + _Z) / (4 * freedom)
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)
    return _Z + first + second
