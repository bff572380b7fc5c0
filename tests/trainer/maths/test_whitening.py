"""Whitening: verl's numbers, and the same from parts."""

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


@pytest.mark.parametrize("cut", [0, 1, 3, 5])
def test_the_moments_of_parts_join_to_those_of_the_whole(cut: int):
    joined = Moments.of(VALUES[:cut]) + Moments.of(VALUES[cut:])
    whole = Moments.of(VALUES)
    assert (joined.count, joined.mean, joined.squares) == pytest.approx((whole.count, whole.mean, whole.squares))


def test_a_single_value_is_whitened_to_zero():
    one = torch.tensor([3.0])
    assert whiten(one, Moments.of(one)).tolist() == [0.0]
