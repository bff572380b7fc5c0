"""A ranking as tables: what there is to gain in a class, and what stands there where that is not known."""

from __future__ import annotations

from pathlib import Path

from app.hotspots_report import gain_text, ranking_tables
from sandbox.hotspots.gain import Gain
from sandbox.hotspots.rank import rank
from tests.sandbox.hotspots.test_compare import ranking


def table(gain: Gain) -> list[str]:
    """The words of the table of one class."""
    (block,) = rank(ranking(1.0).recording)
    return ranking_tables([block], {block.key: gain}, width=150, colour=False, root=Path("/p")).split()


def test_a_class_is_told_with_what_there_is_to_gain() -> None:
    gain = Gain(eager_us=30.0, compile_us=12.0, copy_us=10.0)
    assert {"50.0%", "net.py:1", "Block", "float32", "train", "float32[4]", "3.0×", "2.50×"} <= {*table(gain)}
    assert gain_text(gain) == "eager takes 30.0 µs, 3.0 times a plain copy, torch.compile is 2.50 times as fast"


def test_what_is_not_known_is_said_with_its_reason() -> None:
    half = Gain(eager_us=30.0, copy_us=10.0, compile_unknown="it raises TypeError")
    assert {"3.0×", "-"} <= {*table(half)}
    assert gain_text(half).endswith("torch.compile could not be timed: it raises TypeError")
    assert {"-", "captured"} <= {*table(Gain(unknown="it was not captured"))}
