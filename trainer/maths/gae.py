"""Generalised advantage estimation over the actions of one episode (arXiv 1506.02438).

Only actions are steps: what tools said between two of them is part of the later one's state. The arrays hold the actions of
all segments of an episode in order, so that nothing is estimated, and nothing decays, over tokens that nobody chose.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def advantages(rewards: Floats, values: Floats, gamma: float, lam: float, end: float = 0.0) -> tuple[Floats, Floats]:
    """Estimate by how much each action was better than expected, and what the critic should have expected.

    delta_t = r_t + gamma V(s_t+1) - V(s_t); A_t = delta_t + gamma lambda A_t+1; G_t = A_t + V(s_t).

    Args:
        rewards: What each action earned, (actions,).
        values: What the critic expects in the state that each action was taken in, (actions,).
        gamma: The discount of a step.
        lam: 1 waits for what is really earned; below it the critic is believed, the more the lower.
        end: What is expected after the last action: 0 where the episode ended.

    Returns:
        Advantages A and targets G, (actions,) each.
    """
    following = np.append(values[1:], end)
    deltas = rewards + gamma * following - values
    backward = accumulate(deltas[::-1].tolist(), lambda later, delta: delta + gamma * lam * later)
    estimates = np.array(list(backward), dtype=np.float64)[::-1]
    return estimates, estimates + values


def adaptive_lambda(actions: int, alpha: float) -> float:
    """Return 1 - 1 / (alpha T), at least 0: the first of T actions sees exp(-1/alpha) of the end (VAPO, arXiv 2504.05118)."""
    return max(0.0, 1.0 - 1.0 / (alpha * actions))


def terminal_rewards(actions: int, reward: float) -> Floats:
    """Return the rewards of an episode that earns all of it by its last action."""
    rewards = np.zeros(actions)
    rewards[-1] = reward
    return rewards
