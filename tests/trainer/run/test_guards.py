import math

import pytest

from trainer.run.guards import alarm, healthy
from trainer.run.presets import Recipe


def steps(**series):
    """Metrics of as many steps as each series is long."""
    count = max(map(len, series.values()))
    return [
        {"step": float(step + 1), "episodes": 64.0, **{name: values[step] for name, values in series.items()}}
        for step in range(count)
    ]


def test_a_quiet_run_goes_on():
    history = steps(
        entropy=[1.0, 0.9, 1.1, 0.95, 1.0],
        length_clip=[0.1, 0.12, 0.1, 0.09, 0.1],
        explained_variance=[-0.1, 0.1, 0.3, 0.4, 0.5],
        k3=[0.001] * 5,
    )
    assert alarm(history, Recipe()) is None


def test_a_jump_of_the_entropy_stops_and_trusts_the_weights_before_those_it_was_measured_on():
    found = alarm(steps(entropy=[1.0, 0.9, 1.1, 0.95, 2.4]), Recipe())
    assert found is not None
    assert "2.4" in found.reason
    assert found.trusted == 3


def test_a_jump_needs_something_to_be_measured_against():
    assert alarm(steps(entropy=[0.5, 2.4]), Recipe()) is None


def test_a_slow_rise_of_the_entropy_is_no_jump():
    assert alarm(steps(entropy=[1.0 + 0.05 * step for step in range(20)]), Recipe()) is None


def test_ever_more_episodes_that_run_into_a_limit_stop():
    found = alarm(steps(length_clip=[0.05, 0.05, 0.1, 0.05, 0.6]), Recipe())
    assert found is not None
    assert "60%" in found.reason
    assert found.trusted == 3


def test_two_of_four_episodes_that_run_into_a_limit_may_be_chance():
    history = [{**metrics, "episodes": 4.0} for metrics in steps(length_clip=[0.0, 0.0, 0.25, 0.0, 0.5])]
    assert alarm(history, Recipe()) is None


def test_a_step_too_far_stops_and_trusts_the_weights_before_it():
    found = alarm(steps(k3=[0.001, 0.002, 0.4]), Recipe())
    assert found is not None
    assert found.trusted == 2


@pytest.mark.parametrize(("name", "trusted"), [("k3", 4), ("entropy", 3)])
def test_what_is_no_number_stops(name, trusted):
    found = alarm(steps(**{name: [0.01, 0.02, 0.01, 0.02, math.nan]}), Recipe())
    assert found is not None
    assert "nan" in found.reason
    assert found.trusted == trusted


def test_a_critic_that_explains_nothing_for_long_stops():
    found = alarm(steps(explained_variance=[0.2, 0.1] + [-0.3] * 10), Recipe())
    assert found is not None
    assert found.trusted == 1
    assert alarm(steps(explained_variance=[0.2, 0.1] + [-0.3] * 9), Recipe()) is None
    assert alarm(steps(explained_variance=[-0.3] * 8 + [None] + [-0.3] * 3), Recipe()) is None


def test_a_guard_can_be_switched_off():
    off = Recipe(entropy_jump=None, length_jump=None, k3_limit=None, variance_patience=None)
    history = steps(entropy=[1.0] * 12 + [9.0], length_clip=[0.0] * 12 + [1.0], k3=[9.0] * 13)
    assert alarm([{**metrics, "explained_variance": -1.0} for metrics in history], off) is None


def test_healthy_is_what_a_later_step_found_so():
    assert healthy(steps(explained_variance=[-0.2, 0.1, 0.3, -0.1])) == 2
    assert healthy(steps(explained_variance=[-0.2, None])) == 0
