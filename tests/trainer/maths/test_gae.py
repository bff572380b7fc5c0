"""Advantages: verl's numbers on episodes with observations between the actions, and the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer.maths.gae import adaptive_lambda, advantages, terminal_rewards

# Printed by verl 0.9.1's compute_gae_advantage_return: gamma 0.99, lambda 0.9, observations masked out between the actions.
REWARDS = (np.array([0.0, 0.0, 0.0, 3.0]), np.array([0.0, 0.5, 0.0, -1.0]))
VALUES = (np.array([0.5, 0.2, -0.4, 1.5]), np.array([1.0, 0.3, -0.2, 0.7]))
VERL_ADVANTAGES = ([1.724451, 2.274356, 3.2215, 1.5], [-1.194774, -0.551935, -0.6217, -1.7])
VERL_RETURNS = ([2.224451, 2.474356, 2.8215, 3.0], [-0.194774, -0.251935, -0.8217, -1.0])


@pytest.mark.parametrize("episode", [0, 1])
def test_verls_advantages_and_returns(episode: int):
    estimates, targets = advantages(REWARDS[episode], VALUES[episode], 0.99, 0.9)
    assert estimates == pytest.approx(VERL_ADVANTAGES[episode], abs=2e-6)
    assert targets == pytest.approx(VERL_RETURNS[episode], abs=2e-6)


def test_a_reward_on_the_last_action_reaches_back_over_observations_as_verl_says():
    estimates, targets = advantages(terminal_rewards(3, 3.0), np.full(3, 0.5), 1.0, 0.95)
    assert estimates == pytest.approx([2.25625, 2.375, 2.5])
    assert targets == pytest.approx([2.75625, 2.875, 3.0])


def test_the_recursion_is_the_sum_it_stands_for():
    rng = np.random.default_rng(0)
    rewards, values, end = rng.normal(size=50), rng.normal(size=50), 0.3
    deltas = rewards + 0.97 * np.append(values[1:], end) - values
    summed = [sum((0.97 * 0.9) ** (later - t) * deltas[later] for later in range(t, 50)) for t in range(50)]
    estimates, _ = advantages(rewards, values, 0.97, 0.9, end)
    assert estimates == pytest.approx(summed, abs=1e-12)


def test_with_lambda_one_the_critics_target_is_what_was_earned():
    values = np.random.default_rng(1).normal(size=131_072)
    _, targets = advantages(terminal_rewards(131_072, 3.0), values, 1.0, 1.0)
    assert np.abs(targets - 3.0).max() < 1e-9


@pytest.mark.parametrize("actions", [100, 10_000])
def test_an_adaptive_lambda_shows_the_first_action_the_same_share_of_the_end_at_any_length(actions: int):
    share = adaptive_lambda(actions, 0.4) ** (actions - 1)
    assert share == pytest.approx(math.exp(-1 / 0.4), rel=0.05)


def test_an_adaptive_lambda_is_never_negative():
    assert adaptive_lambda(1, 0.4) == 0.0
