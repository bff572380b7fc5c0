"""Explained variance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer.maths.explained import explained_variance

TARGETS = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [(TARGETS, 1.0), (TARGETS + 5, 1.0), (np.zeros(3), 0.0), (-TARGETS, -3.0), (TARGETS / 2, 0.75)],
)
def test_the_share_of_the_variance_that_the_critic_saw_coming(values: np.ndarray, expected: float):
    assert explained_variance(values, TARGETS) == pytest.approx(expected)


def test_nothing_can_be_explained_where_nothing_varies():
    assert math.isnan(explained_variance(TARGETS, np.ones(3)))
