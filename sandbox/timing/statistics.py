"""How much faster the candidate is, with an interval that knows that placements differ.

Where buffers lie and which process runs them shift every time of a placement by the same few percent, so the interval
is over placements and not over samples: repeats inside one placement cannot make it narrower than placements differ.
Nor can a few placements that happen to agree: how far they differ is known from measuring one thing against itself.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean, median, stdev

from sandbox.verdict import Speedup

Placements = Sequence[Sequence[float]]
"""Times of one side in microseconds, ``placements[p][i]``."""

RESAMPLES = 500
FASTER = 0.95
"""The whole interval of t / t_baseline must be under this for a candidate to count as faster."""
SHORT_US = 8.0
SHORT_GAIN = 1.15
SHIFT_US = 0.17
"""Standard deviation of what a placement adds to a time: 2.1 % of 8 µs and 0.75 % of 20 µs were measured."""
COARSEST = 0.02
"""Repeats must settle a placement's ratio to this, however clear the decision is: the ratio is shown."""

_T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_Z = 1.959964


def speedup(candidate: Placements, baseline: Placements, resamples: int = RESAMPLES) -> Speedup:
    """Return baseline time over candidate time: the median over placements of the ratio of medians.

    The two-sided 95 % interval is the widest, at each end, of a cluster bootstrap (placements, then samples inside
    them), of Student's t over the placements' log ratios (a bootstrap of a handful of clusters alone is too narrow), and
    of what so many placements leave open by the shift that is known of them. Where a time is short, it reaches so far
    that no gain under ``SHORT_GAIN`` can lie above ``1 / FASTER`` as a whole.

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
    times = median(map(median, ours)), median(map(median, theirs))
    known = _Z * _shift(*times) / math.sqrt(len(logs))
    spread = _t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    short = math.log(SHORT_GAIN * FASTER) if min(times) < SHORT_US else 0.0
    half = max(known, spread)
    bootstrapped = _bootstrap(ours, theirs, resamples)
    low = min(centre - short, fmean(logs) - half, bootstrapped[0])
    high = max(centre + short, fmean(logs) + half, bootstrapped[1])
    return Speedup(math.exp(centre), math.exp(low), math.exp(high))


def precise_enough(candidate: Sequence[float], baseline: Sequence[float]) -> bool:
    """Whether more repeats in a placement would tell nothing more: what they leave open is little beside what is asked.

    It is little beside half of the placement's own shift, which no repeats remove, or beside a quarter of the distance
    to where the decision turns.

    Args:
        candidate: Positive times of one placement, in microseconds.
        baseline: The same of the baseline, measured beside it.
    """
    ours, theirs = median(candidate), median(baseline)
    distance = abs(math.log(theirs / ours * FASTER))
    asked = min(COARSEST, max(_shift(ours, theirs) / 2, distance / 4))
    return math.hypot(_repeat_error(candidate), _repeat_error(baseline)) <= asked


def too_short_to_call(candidate_us: float, baseline_us: float, gain: Speedup) -> bool:
    """Whether a gain is smaller than what placement alone can make at this length: under 15 % below 8 µs."""
    return min(candidate_us, baseline_us) < SHORT_US and 1 < gain.ratio < SHORT_GAIN


def _shift(candidate_us: float, baseline_us: float) -> float:
    """Return the standard deviation of a placement's log ratio that is known at this length."""
    return math.hypot(SHIFT_US / candidate_us, SHIFT_US / baseline_us)


def _repeat_error(samples: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of the log median, from the order of the samples."""
    ordered, count = sorted(samples), len(samples)
    reach = _Z * math.sqrt(count) / 2
    low, high = max(0, math.floor(count / 2 - reach)), min(count - 1, math.ceil(count / 2 + reach))
    return math.log(ordered[high] / ordered[low]) / 2


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
