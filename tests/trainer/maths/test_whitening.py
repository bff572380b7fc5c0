"""Whitening: verl's numbers."""

from __future__ import annotations

import pytest
import torch

from trainer.maths.whitening import Moments, whiten

VALUES = torch.tensor([0.3, -2.0, 5.0, 1.25, 0.5])


def test_verls_mean_variance_and_whitened_values():
    moments = Moments.of(VALUES)
    assert (moments.mean, moments.variance) == pytest.approx((1.01, 6.4505), abs=1e-6)
    assert whiten(VALUES, moments).tolist() == pytest.approx(
        [-0.279551, -1.18514, 1.571, 0.094496, -0.200805], abs=2e-6
    )


def test_a_single_value_is_whitened_to_zero():
    one = torch.tensor([3.0])
    assert whiten(one, Moments.of(one)).tolist() == [0.0]
