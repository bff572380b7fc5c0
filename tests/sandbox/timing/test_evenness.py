"""When batches count as uneven: in every one of them, in many, and not in the reference's too."""

from __future__ import annotations

import random
from collections.abc import Iterable

from sandbox.timing.evenness import Evenness


def told(own: Iterable[list[float]], others: Iterable[list[float]] = ()) -> str:
    batches = Evenness()
    for us in own:
        batches.take(us, candidate=True)
    for us in others:
        batches.take(us, candidate=False)
    assert not (batches.doubts and batches.evidence())
    return batches.evidence()


def test_a_call_that_does_the_work_of_all_is_found_wherever_it_comes() -> None:
    for place in range(3):
        assert "times their median" in told([[6.0 if number == place else 0.1 for number in range(5)]] * 8)


def test_noise_is_none() -> None:
    draw = random.Random(1)
    noisy = [[10.0 * draw.choice([1, 1, 1, 1, 1, 1.1, 1.2, 8]) for _ in range(6)] for _ in range(40)]
    assert told(noisy) == ""


def test_what_the_reference_does_too_is_none() -> None:
    cast_once = [[5.0, 1.0, 1.0, 1.0, 1.0]] * 8
    assert told(cast_once)
    assert told(cast_once, cast_once) == ""


def test_a_few_batches_are_not_enough_and_raise_doubts() -> None:
    batches = Evenness()
    assert not batches.doubts
    for _ in range(7):
        batches.take([9.0, 1.0, 1.0], candidate=True)
        assert batches.doubts
        assert batches.evidence() == ""
    batches.take([9.0, 1.0, 1.0], candidate=True)
    assert not batches.doubts
    assert batches.evidence()
    batches.excuse_last()
    assert batches.doubts


def test_short_batches_say_nothing() -> None:
    assert told([[9.0, 0.1], [9.0]] * 8) == ""
