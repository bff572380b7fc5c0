"""Estimates of the Kullback-Leibler divergence of a policy from another, from actions that the policy sampled.

After Schulman (joschu.net/blog/kl-approx.html), with d = log pi - log other; (actions,) each.
"""

from __future__ import annotations

from torch import Tensor

from trainer.maths.losses import log_ratio


def k1(logp: Tensor, other: Tensor) -> Tensor:
    """Return d: unbiased, noisy, often negative."""
    return logp - other


def k2(logp: Tensor, other: Tensor) -> Tensor:
    """Return d squared, halved: biased, never negative; as a loss, its gradient is that of the divergence."""
    return 0.5 * (logp - other) ** 2


def k3(logp: Tensor, other: Tensor) -> Tensor:
    """Return exp(-d) - 1 + d: unbiased and never negative; for watching, since as a loss its gradient is not the right one."""
    towards = log_ratio(other, logp)
    return towards.exp() - 1 - towards


def kl_loss(logp: Tensor, other: Tensor) -> Tensor:
    """Return the value of `k3` with the gradient of `k2`, which is what a penalty should have."""
    right_gradient = k2(logp, other)
    return right_gradient - right_gradient.detach() + k3(logp, other).detach()
