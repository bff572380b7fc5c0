"""Advantages relative to a group, and the normalised, clipped reward of a speed-up."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.maths.group import SpeedupReward, group_advantages


def test_each_group_is_centred_and_scaled_for_itself():
    rewards = np.array([1.0, 10.0, 3.0, 30.0, 5.0])
    groups = np.array([7, 2, 7, 2, 7])
    found = group_advantages(rewards, groups)
    assert found == pytest.approx([-1.0, -(0.5**0.5), 0.0, 0.5**0.5, 1.0], abs=1e-5)
    assert group_advantages(rewards, groups, scaled=False) == pytest.approx([-2.0, -10.0, 0.0, 10.0, 2.0])


def test_a_group_of_equals_or_of_one_teaches_nothing():
    found = group_advantages(np.array([3.0, 3.0, -1.0]), np.array([0, 0, 1]))
    assert found.tolist() == [0.0, 0.0, 0.0]


def test_speedups_are_normalised_by_all_that_were_seen_and_clipped():
    first, second = np.array([1.0, 1.2, 0.8]), np.array([2.0, 1.0])
    seen = SpeedupReward().seen(first).seen(second)
    everything = np.concatenate([first, second])
    assert (seen.count, seen.mean) == (5, pytest.approx(everything.mean()))
    rewards = seen.rewards(np.array([1.4, 120.0, 0.0]))
    assert rewards[0] == pytest.approx((1.4 - everything.mean()) / everything.std(ddof=1))
    assert rewards[1:].tolist() == [1.5, -1.5]


def test_as_long_as_nothing_varies_no_speedup_is_worth_more_than_another():
    assert SpeedupReward().rewards(np.array([3.0])).tolist() == [0.0]
    assert SpeedupReward().seen(np.array([1.0, 1.0])).rewards(np.array([3.0])).tolist() == [0.0]
