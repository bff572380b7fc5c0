"""Advantages of answers relative to other answers to the same question, without a critic (GRPO, arXiv 2402.03300).

With the reward that CUDA-L1 (arXiv 2507.14111) makes of a measured speed-up: normalised by what was seen so far, and clipped,
so that one lucky measurement, or one trick, cannot pull the policy after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EPSILON = 1e-6
CLIP = 1.5


def group_advantages(rewards: Floats, groups: NDArray[np.int64], *, scaled: bool = True) -> Floats:
    """Return each reward less the mean of its group, over the group's standard deviation if ``scaled``.

    A group whose rewards are all the same teaches nothing: its advantages are 0.

    Args:
        rewards: (answers,).
        groups: (answers,); equal for answers to the same question.
        scaled: Whether to divide.
    """
    _, group = np.unique(groups, return_inverse=True)
    counts = np.bincount(group)
    centred = rewards - (np.bincount(group, rewards) / counts)[group]
    if not scaled:
        return centred
    variance = np.bincount(group, centred**2) / np.maximum(counts - 1, 1)
    return np.asarray(centred / (np.sqrt(variance)[group] + EPSILON), dtype=np.float64)


@dataclass(frozen=True)
class SpeedupReward:
    """Running mean and variance of speed-ups, by which a new one is normalised.

    Attributes:
        count: How many were seen.
        mean: Of them.
        squares: Sum of their squared deviations.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def seen(self, speedups: Floats) -> SpeedupReward:
        """Return the statistics with more speed-ups taken in, one after the other (Welford)."""
        count, mean, squares = self.count, self.mean, self.squares
        for value in speedups.tolist():
            count += 1
            apart = value - mean
            mean += apart / count
            squares += apart * (value - mean)
        return SpeedupReward(count, mean, squares)

    def rewards(self, speedups: Floats, clip: float = CLIP) -> Floats:
        """Return (speed-up - mean) / standard deviation, clipped to +-``clip``; 0 as long as nothing varies."""
        deviation = (self.squares / (self.count - 1)) ** 0.5 if self.count > 1 else 0.0
        if deviation < EPSILON:
            return np.zeros_like(speedups)
        return np.clip((speedups - self.mean) / deviation, -clip, clip)
