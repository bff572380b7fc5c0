"""Losses: verl's numbers, and gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from trainer.maths.aggregate import Mean, token_weights
from trainer.maths.losses import clipped, dppo_loss, moved_far, nll, policy_loss, value_loss

# Two episodes of four and three actions, and what verl 0.9.1's functions print for them.
LENGTHS = torch.tensor([4, 3])
LOGP = torch.tensor([-0.36, -2.3, -0.1, -3.0, -0.05, -1.2, -7.0])
OLD = torch.tensor([-0.69, -1.6, -0.1, -4.6, -0.9, -1.25, -6.0])
ADVANTAGES = torch.tensor([1.0, -1.0, 0.5, -2.0, 2.0, -0.3, 1.0])


def summed(loss: Tensor, mean: Mean) -> float:
    return float((loss * token_weights(LENGTHS, mean)).sum())


@pytest.mark.parametrize(
    ("dual", "mean", "verl"),
    [
        (3.0, Mean.TOKEN, 0.343929),
        (3.0, Mean.EPISODE, 0.192084),
        (1.2, Mean.TOKEN, -0.170357),
        (1.2, Mean.EPISODE, -0.257916),
    ],
)
def test_verls_clipped_policy_loss(dual: float, mean: Mean, verl: float):
    assert summed(policy_loss(LOGP, OLD, ADVANTAGES, 0.2, 0.28, dual), mean) == pytest.approx(verl, abs=2e-6)


def test_the_facts_clipped_policy_loss():
    logp, old = torch.tensor([0.7, 0.1, 0.9, 0.05]).log(), torch.tensor([0.5, 0.2, 0.9, 0.01]).log()
    loss = policy_loss(logp, old, torch.tensor([1.0, -1.0, 0.5, -2.0]), 0.2, 0.28, 3.0)
    assert float(loss.mean()) == pytest.approx(1.2550, abs=1e-4)


def test_without_a_dual_clip_a_bad_action_that_became_likely_costs_its_whole_ratio():
    loss = policy_loss(LOGP, OLD, ADVANTAGES)
    assert float(loss[3]) == pytest.approx(2 * torch.tensor(1.6).exp().item(), rel=1e-5)


def test_verls_clip_fraction():
    assert float(clipped(LOGP, OLD, ADVANTAGES).float().mean()) == pytest.approx(0.428571, abs=1e-6)


def test_clipped_actions_are_those_without_a_gradient():
    logp = LOGP.clone().requires_grad_()
    policy_loss(logp, OLD, ADVANTAGES).sum().backward()
    assert logp.grad is not None
    assert torch.equal(logp.grad == 0, clipped(LOGP, OLD, ADVANTAGES))


def test_verls_dppo_and_its_gradient():
    logp = LOGP.clone().requires_grad_()
    loss = (dppo_loss(logp, OLD, ADVANTAGES) * token_weights(LENGTHS, Mean.TOKEN)).sum()
    loss.backward()
    assert logp.grad is not None
    assert loss.item() == pytest.approx(-4.016128, abs=5e-6)
    assert logp.grad.tolist() == pytest.approx(
        [-0.19871, 0.070941, -0.071429, 1.415152, 0.0, 0.045054, -0.052554], abs=2e-6
    )


@pytest.mark.parametrize(("clip", "verl"), [(0.5, 1.715), (None, 1.335)])
def test_verls_value_loss(clip: float | None, verl: float):
    values, targets, old = torch.tensor([1.0, 2.0, 0.4]), torch.tensor([3.0, 0.0, 0.5]), torch.tensor([0.0, 2.0, 1.2])
    assert float(value_loss(values, targets, old, clip).mean()) == pytest.approx(verl, abs=1e-6)


def test_the_facts_value_loss():
    loss = value_loss(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0]), torch.tensor([0.0, 2.0]), 0.5)
    assert float(loss.mean()) == pytest.approx(2.5625)


@pytest.mark.parametrize(
    "loss",
    [
        partial(policy_loss, old=OLD.double(), advantages=ADVANTAGES.double(), dual=3.0),
        partial(value_loss, targets=OLD.double(), old=OLD.double() + 0.1, clip=0.5),
        nll,
    ],
    ids=["policy", "value", "nll"],
)
def test_gradients_against_finite_differences(loss: Callable[[Tensor], Tensor]):
    assert torch.autograd.gradcheck(loss, (LOGP.double().requires_grad_(),))


def test_what_has_moved_far_enough_has_no_gradient_in_dppo():
    old = torch.tensor([0.3, 0.3, 0.3, 0.3, 0.3]).log()
    logp = torch.tensor([0.51, 0.49, 0.09, 0.11, 0.9]).log().requires_grad_()
    wanted = torch.tensor([1.0, 1.0, -1.0, -1.0, 0.0])
    assert moved_far(logp, old, wanted).tolist() == [True, False, True, False, False]
    dppo_loss(logp, old, wanted).sum().backward()
    assert logp.grad is not None
    assert (logp.grad != 0).tolist() == [False, True, False, True, False]


def test_a_ratio_beyond_all_bounds_stays_finite():
    loss = policy_loss(torch.tensor([0.0]), torch.tensor([-500.0]), torch.tensor([-1.0]))
    assert torch.isfinite(loss).all()
