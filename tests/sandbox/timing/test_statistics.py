"""The speed-up's interval: its algebra by properties, its honesty by simulation with a fixed seed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.judge_limits import JudgeLimits
from sandbox.reward import undecided
from sandbox.timing.statistics import FASTER, precise_enough, speedup, too_short_to_call
from sandbox.verdict import Baseline, ProfileReport, Speedup

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


@pytest.mark.parametrize(("us", "placements", "least"), [(20.0, 1, 0.023), (20.0, 5, 0.010), (9.0, 2, 0.036)])
def test_placements_that_agree_are_no_surer_than_placements_are(us, placements, least) -> None:
    """How far a placement shifts a time is known; that a few do not differ by chance makes it no smaller."""
    found = speedup([[us] * 9] * placements, [[us * 1.5] * 9] * placements)
    assert found.ratio / found.low - 1 > 0.8 * least
    assert found.high / found.ratio - 1 < 1.2 * least


@pytest.mark.parametrize(("gain", "called"), [(1.07, False), (1.14, False), (1.16, True)])
def test_below_eight_microseconds_it_takes_fifteen_percent(gain, called) -> None:
    found = speedup([[5.0] * 9] * 9, [[5.0 * gain] * 9] * 9)
    assert (found.low * FASTER > 1) is called


class TestPrecision:
    """When a placement has enough repeats."""

    def samples(self, us: float, count: int, scatter: float = 0.01, seed: int = 1) -> list[float]:
        noise = random.Random(seed)
        return [us * math.exp(noise.gauss(0, scatter)) for _ in range(count)]

    def test_few_and_wild_repeats_are_too_few(self) -> None:
        assert not precise_enough(self.samples(20, 8, 0.05), self.samples(30, 8, 0.05, 2))

    def test_a_clear_gain_needs_fewer_than_one_where_the_decision_turns(self) -> None:
        clear = [precise_enough(self.samples(1000, 30), self.samples(1500, 30, seed=seed)) for seed in range(20)]
        close = [precise_enough(self.samples(1000, 30), self.samples(1055, 30, seed=seed)) for seed in range(20)]
        assert all(clear)
        assert not any(close)

    def test_nothing_is_asked_that_the_placement_blurs_anyway(self) -> None:
        assert precise_enough(self.samples(9, 60), self.samples(9.5, 60, seed=2))

    def test_what_is_shown_is_never_coarser_than_two_percent(self) -> None:
        assert not precise_enough(self.samples(1000, 20, 0.1), self.samples(9000, 20, 0.1, 2))


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


@pytest.mark.parametrize(
    ("tier", "us", "most"), [("quick", 8.01, 1), ("full", 8.01, 0), ("quick", 20.0, 0), ("full", 20.0, 0)]
)
def test_drawing_on_while_undecided_makes_no_false_wins(tier, us, most) -> None:
    """The reference as its own candidate: more placements are drawn just where the first ones look like a win."""
    noise = random.Random(20240503)
    assert sum(_rewarded(noise, tier, us, gain=1.0) for _ in range(1000)) <= most


@pytest.mark.parametrize(("tier", "least"), [("quick", 95), ("full", 99)])
def test_ten_percent_at_twenty_microseconds_raise_the_reward(tier, least) -> None:
    noise = random.Random(20240504)
    assert sum(_rewarded(noise, tier, 20.0, gain=1 / 0.9) for _ in range(100)) >= least


def test_a_quick_verdict_without_further_placements_would_miss_most_of_them() -> None:
    """What the further placements are for: with two alone, Student's t has one degree of freedom."""
    noise = random.Random(20240505)
    stopped = [_rewarded(noise, "quick", 20.0, gain=1 / 0.9, more=0) for _ in range(100)]
    assert sum(stopped) < 60


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


def _rewarded(noise: random.Random, tier: str, us: float, gain: float, more: int | None = None) -> bool:
    """Judge as the timekeeper does, at the shifts of 2.1 % at 8 µs and 0.75 % at 20 µs that were measured."""
    limits = JudgeLimits().quick if tier == "quick" else JudgeLimits().full
    most = limits.placements + (limits.more_placements if more is None else more)
    sides: dict[str, list[list[float]]] = {"candidate": [], "eager": []}
    while True:
        for side, centre in (("candidate", us), ("eager", us * gain)):
            at = centre * math.exp(noise.gauss(0, 0.17 / us) + noise.gauss(0, 0.003))
            sides[side].append([at] * 9)
        if len(sides["eager"]) < limits.placements:
            continue
        found = speedup(sides["candidate"], sides["eager"], resamples=20)
        baselines = {"eager": Baseline("eager", us * gain)}
        if len(sides["eager"]) == most or not undecided(ProfileReport(us, us, baselines, {"eager": found}, us, sides)):
            return found.low * FASTER > 1


def _wins(noise: random.Random, placements: int, gain: float, offset: float = 0.02) -> bool:
    found = speedup(*_draw(noise, placements, offset, gain), resamples=20)
    return found.low * 0.95 > 1


def _draw(noise: random.Random, placements: int, offset: float, gain: float) -> tuple[list, list]:
    """Draw both sides' times of 20 µs: an offset a placement and side, 1 % of scatter, now and then an interruption."""

    def side(centre: float) -> list[list[float]]:
        shifted = [centre * math.exp(noise.gauss(0, offset)) for _ in range(placements)]
        return [[at * (1 + abs(noise.gauss(0, 0.01))) * noise.choice(_STALLS) for _ in range(25)] for at in shifted]

    return side(20.0), side(20.0 * gain)


_STALLS = (1.0,) * 29 + (1.8,)
