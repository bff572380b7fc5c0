"""Truncated importance: verl's weights, effective sample size, and mean k3 per episode."""

from __future__ import annotations

import pytest
import torch

from tests.trainer.maths.test_losses import LENGTHS, LOGP, OLD
from trainer.maths.importance import correction


def test_verls_truncated_weights():
    found = correction(OLD, LOGP, LENGTHS, cap=2.0, k3_bound=None)
    assert found.weights.tolist() == pytest.approx([0.718924, 2.0, 1.0, 0.201897, 0.427415, 0.951229, 2.0], abs=2e-6)
    assert found.diagnostics["effective_share"] == pytest.approx(0.715044, abs=1e-5)
    assert found.diagnostics["capped_share"] == pytest.approx(2 / 7)
    assert found.diagnostics["k3"] == pytest.approx(0.308786, abs=1e-5)


def test_an_episode_is_rejected_by_verls_mean_k3():
    # verl prints 0.031801 and 0.026629 for the means of these two episodes.
    apart = 0.3 * (OLD - LOGP)
    nothing = torch.zeros_like(apart)
    for bound, kept in [(0.0266, [False, False]), (0.0267, [False, True]), (0.0319, [True, True])]:
        found = correction(apart, nothing, LENGTHS, k3_bound=bound)
        assert found.kept.tolist() == kept
        assert (found.weights > 0).tolist() == [kept[0]] * 4 + [kept[1]] * 3
        assert found.diagnostics["rejected_share"] == kept.count(False) / 2


def test_what_the_same_weights_sampled_counts_fully():
    found = correction(LOGP, LOGP, LENGTHS)
    assert found.weights.tolist() == [1.0] * 7
    assert found.diagnostics == {
        "mismatch": 0.0,
        "k3": 0.0,
        "effective_share": 1.0,
        "capped_share": 0.0,
        "rejected_share": 0.0,
    }
