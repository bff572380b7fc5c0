"""Estimates of the divergence: verl's numbers, and what they estimate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.trainer.maths.test_losses import LOGP, OLD
from trainer.maths.kl import k1, k2, k3, kl_loss

DIFFERENCES = [0.33, -0.7, 0.0, 1.6, 0.85, 0.05, -1.0]


@pytest.mark.parametrize(
    ("estimate", "verl", "gradient"),
    [
        (k1, DIFFERENCES, [1.0] * 7),
        (k2, [0.05445, 0.245, 0.0, 1.28, 0.36125, 0.00125, 0.5], DIFFERENCES),
        (
            k3,
            [0.048924, 0.313753, 0.0, 0.801896, 0.277415, 0.001229, 0.718282],
            [0.281076, -1.013752, 0.0, 0.798103, 0.572585, 0.048771, -1.718282],
        ),
        (kl_loss, [0.048924, 0.313753, 0.0, 0.801896, 0.277415, 0.001229, 0.718282], DIFFERENCES),
    ],
)
def test_verls_estimates_and_their_gradients(
    estimate: Callable[[Tensor, Tensor], Tensor], verl: list[float], gradient: list[float]
):
    logp = LOGP.clone().requires_grad_()
    value = estimate(logp, OLD)
    value.sum().backward()
    assert logp.grad is not None
    assert value.tolist() == pytest.approx(verl, abs=2e-6)
    assert logp.grad.tolist() == pytest.approx(gradient, abs=2e-6)


@pytest.mark.parametrize("estimate", [k1, k3])
def test_the_mean_over_samples_is_the_divergence(estimate: Callable[[Tensor, Tensor], Tensor]):
    policy, other = torch.tensor([[0.6, 0.3, 0.1], [0.4, 0.4, 0.2]], dtype=torch.float64)
    divergence = float((policy * (policy / other).log()).sum())
    expected = float((policy * estimate(policy.log(), other.log())).sum())
    assert expected == pytest.approx(divergence, abs=1e-12)
