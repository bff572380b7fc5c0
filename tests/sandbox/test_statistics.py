"""The speed-up's interval: its algebra by properties, its honesty by simulation with a fixed seed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.statistics import speedup, too_short_to_call
from sandbox.verdict import Speedup

TIMES = st.floats(min_value=0.5, max_value=1e5, allow_nan=False)
PLACEMENT = st.lists(TIMES, min_size=1, max_size=9)


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[list[float]], list[list[float]]]:
    count = draw(st.integers(1, 6))
    pair = [draw(st.lists(PLACEMENT, min_size=count, max_size=count)) for _ in range(2)]
    return pair[0], pair[1]


@settings(max_examples=60, deadline=None)
@given(sides())
def test_ratio_lies_in_its_interval(pair) -> None:
    found = speedup(*pair, resamples=50)
    assert 0 < found.low <= found.ratio <= found.high < math.inf


@settings(max_examples=40, deadline=None)
@given(sides(), st.sampled_from([2.0**-10, 0.5, 8.0]))
def test_units_do_not_matter(pair, factor) -> None:
    candidate, baseline = pair
    scaled = [[[t * factor for t in samples] for samples in side] for side in pair]
    assert speedup(*scaled, resamples=50) == speedup(candidate, baseline, resamples=50)


@settings(max_examples=40, deadline=None)
@given(sides())
def test_order_of_samples_does_not_matter(pair) -> None:
    reordered = [[sorted(samples, reverse=True) for samples in side] for side in pair]
    assert speedup(*reordered, resamples=50) == speedup(*pair, resamples=50)


def test_equal_data_give_equal_intervals() -> None:
    noise = random.Random(7)
    pair = [[[noise.gauss(20, 1) for _ in range(30)] for _ in range(5)] for _ in range(2)]
    assert speedup(*pair) == speedup(*pair)


def test_a_side_against_itself_is_one() -> None:
    side = [[20.0, 20.5, 21.0], [22.0, 22.1, 22.2]]
    found = speedup(side, side)
    assert found.ratio == 1.0
    assert found.low <= 1.0 <= found.high


def test_ratio_is_the_median_over_placements_of_the_ratio_of_medians() -> None:
    candidate = [[10.0, 10.0, 90.0], [10.0], [10.0]]
    baseline = [[20.0], [30.0, 30.0, 1.0], [50.0]]
    assert speedup(candidate, baseline).ratio == pytest.approx(3.0)


def test_placements_count_and_repeats_do_not() -> None:
    """A hundred times the repeats cannot make the interval narrower than placements differ."""
    candidate = [[20.0] * 2000, [21.0] * 2000, [20.5] * 2000]
    baseline = [[22.0] * 2000, [22.0] * 2000, [22.0] * 2000]
    found = speedup(candidate, baseline)
    few = speedup([side[:20] for side in candidate], [side[:20] for side in baseline])
    assert found.high / found.low == pytest.approx(few.high / few.low)
    assert found.low < 22 / 21
    assert found.high > 22 / 20


def test_two_placements_are_wider_than_five() -> None:
    noise = random.Random(3)
    candidate, baseline = _draw(noise, placements=5, offset=0.02, gain=1.2)
    five, two = speedup(candidate, baseline), speedup(candidate[:2], baseline[:2])
    assert two.high / two.low > five.high / five.low


def test_one_placement_covers_its_repeats() -> None:
    noise = random.Random(5)
    candidate, baseline = _draw(noise, placements=1, offset=0.0, gain=1.5)
    found = speedup(candidate, baseline)
    assert 1.45 < found.low < found.ratio < found.high < 1.55


@pytest.mark.parametrize(
    ("candidate", "baseline", "message"),
    [
        ([], [], "without samples"),
        ([[1.0]], [[]], "without samples"),
        ([[1.0], [1.0]], [[1.0]], "2 placements of the candidate and 1 of the baseline"),
        ([[0.0]], [[1.0]], "positive"),
        ([[1.0]], [[-1.0]], "positive"),
        ([[math.nan]], [[1.0]], "positive"),
        ([[math.inf]], [[1.0]], "finite"),
    ],
)
def test_samples_that_cannot_be_compared(candidate, baseline, message) -> None:
    with pytest.raises(ValueError, match=message):
        speedup(candidate, baseline)


def test_no_false_win_of_five_percent_in_a_thousand() -> None:
    """The reference as its own candidate, placements that shift either side by 2 %, repeats that scatter by 1 %."""
    noise = random.Random(20240501)
    false = [placements for placements in (5, 2) for _ in range(1000) if _wins(noise, placements, gain=1.0)]
    assert false == []


def test_ten_percent_are_seen_in_99_of_100() -> None:
    """A candidate that needs 0.9 of the time, placements that shift either side by 1 %: five of them suffice."""
    noise = random.Random(20240502)
    assert sum(_wins(noise, 5, gain=1 / 0.9, offset=0.01) for _ in range(200)) >= 198


@pytest.mark.parametrize("placements", [2, 3, 5])
def test_interval_covers_the_truth(placements) -> None:
    """Two-sided 95 %: of 400 intervals at least 92 % hold the true speed-up (four standard errors below 95 %: 90.6 %)."""
    noise = random.Random(placements)
    held = 0
    for _ in range(400):
        found = speedup(*_draw(noise, placements, offset=0.02, gain=1.3), resamples=100)
        held += found.low <= 1.3 <= found.high
    assert held >= 368


@pytest.mark.parametrize(
    ("candidate_us", "baseline_us", "ratio", "expected"),
    [
        (7.0, 7.7, 1.1, True),
        (7.9, 9.0, 1.14, True),
        (6.0, 6.9, 1.16, False),
        (8.0, 9.0, 1.1, False),
        (9, 7.9, 0.9, False),
    ],
)
def test_too_short_to_call(candidate_us, baseline_us, ratio, expected) -> None:
    assert too_short_to_call(candidate_us, baseline_us, Speedup(ratio, ratio, ratio)) is expected


def _wins(noise: random.Random, placements: int, gain: float, offset: float = 0.02) -> bool:
    found = speedup(*_draw(noise, placements, offset, gain), resamples=100)
    return found.low * 0.95 > 1


def _draw(noise: random.Random, placements: int, offset: float, gain: float) -> tuple[list, list]:
    """Draw both sides' times of 20 µs: an offset a placement and side, 1 % of scatter, now and then an interruption."""

    def side(centre: float) -> list[list[float]]:
        shifted = [centre * math.exp(noise.gauss(0, offset)) for _ in range(placements)]
        return [[at * (1 + abs(noise.gauss(0, 0.01))) * noise.choice(_STALLS) for _ in range(25)] for at in shifted]

    return side(20.0), side(20.0 * gain)


_STALLS = (1.0,) * 29 + (1.8,)
