"""What is minimised, per action: how it is averaged is said elsewhere (`aggregate`).

All arguments are float32 tensors of shape (actions,), and so is what is returned.
"""

from __future__ import annotations

import torch
from torch import Tensor

RATIO_LIMIT = 20.0
"""Log-ratios are held within this, beyond which their exponential says nothing any more."""


def log_ratio(logp: Tensor, other: Tensor) -> Tensor:
    """Return log(pi / other) of actions, held within `RATIO_LIMIT`."""
    return (logp - other).clamp(-RATIO_LIMIT, RATIO_LIMIT)


def policy_loss(
    logp: Tensor, old: Tensor, advantages: Tensor, low: float = 0.2, high: float = 0.28, dual: float | None = None
) -> Tensor:
    """Return the clipped surrogate of PPO (arXiv 1707.06347), with bounds of its own on either side (DAPO, arXiv 2503.14476).

    Args:
        logp: Of the actions under the weights in training.
        old: Of the actions under the weights before this update.
        advantages: Of the actions.
        low: The ratio counts down to 1 - low ...
        high: ... and up to 1 + high.
        dual: The loss of an action with a negative advantage is at most so many times that advantage (dual clip, arXiv
            1912.09729); None leaves it unbounded.
    """
    ratio = log_ratio(logp, old).exp()
    loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - low, 1 + high))
    if dual is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -dual * advantages), loss)


def dppo_loss(
    logp: Tensor, old: Tensor, advantages: Tensor, low: float = 0.2, high: float = 0.2, cap: float = 20.0
) -> Tensor:
    """Return the surrogate without the actions whose probability has moved far enough already (DPPO, arXiv 2602.04879).

    The bound is on the probability and not on the ratio, so that rare tokens may move freely and common ones may not. Only
    the gradient means something; the ratio is a constant in it.

    Args:
        logp: Of the actions under the weights in training.
        old: Of the actions under the weights before this update.
        advantages: Of the actions.
        low: By how much the probability of an action with a negative advantage may have fallen.
        high: By how much that of one with a positive advantage may have risen.
        cap: No ratio counts for more.
    """
    free = ~moved_far(logp.detach(), old, advantages, low, high)
    ratio = log_ratio(logp, old).exp().clamp(max=cap).detach()
    return -advantages * ratio * logp * free


def moved_far(logp: Tensor, old: Tensor, advantages: Tensor, low: float = 0.2, high: float = 0.2) -> Tensor:
    """Return which actions `dppo_loss` gives no gradient to, because their probability has moved far enough."""
    moved = logp.exp() - old.exp()
    return torch.where(advantages > 0, moved > high, moved < -low) & (advantages != 0)


def clipped(logp: Tensor, old: Tensor, advantages: Tensor, low: float = 0.2, high: float = 0.28) -> Tensor:
    """Return which actions `policy_loss` gives no gradient to, because their ratio is out of bounds on the side they gain by."""
    ratio = log_ratio(logp, old).exp()
    return torch.where(advantages > 0, ratio > 1 + high, ratio < 1 - low) & (advantages != 0)


def value_loss(values: Tensor, targets: Tensor, old: Tensor | None = None, clip: float | None = None) -> Tensor:
    """Return half the squared error, or the larger of it and that of values held close to what they were.

    Args:
        values: Of the critic in training.
        targets: What it should have said.
        old: What it said before this update; needed where ``clip`` is given.
        clip: How far from ``old`` a value counts; None does not clip.
    """
    squared = (values - targets) ** 2
    if clip is None or old is None:
        return 0.5 * squared
    held = torch.minimum(torch.maximum(values, old - clip), old + clip)
    return 0.5 * torch.maximum(squared, (held - targets) ** 2)


def nll(logp: Tensor) -> Tensor:
    """Return the negative log-likelihood: rejection fine-tuning, and the extra loss on what was good (VAPO)."""
    return -logp
