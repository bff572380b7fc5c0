"""Numbers on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from sandbox.counts import amount, count, natural


def read(kind: Callable[[str], float], text: str) -> float:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--number", type=kind)
    return parser.parse_args([f"--number={text}"]).number


def test_what_makes_sense_is_read() -> None:
    assert [read(count, "1"), read(natural, "0"), read(amount, "0.5")] == [1, 0, 0.5]


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (count, "0", "it has to be 1 or more"),
        (natural, "-1", "it has to be 0 or more"),
        (amount, "-0.1", "not below 0"),
        (amount, "nan", "not below 0"),
        (amount, "inf", "not below 0"),
        (count, "many", "a whole number, not 'many'"),
        (amount, "much", "a number, not 'much'"),
    ],
)
def test_what_does_not_is_refused_with_the_option(kind: Callable[[str], float], text: str, told: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=told) as refused:
        read(kind, text)
    assert refused.value.argument_name == "--number"
