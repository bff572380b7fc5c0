"""Which classes are measured, and when no more of them are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.hotspots import gain
from sandbox.hotspots.gain import Gain, Measuring, measure_gains
from sandbox.hotspots.rank import Hotspot, rank
from tests.sandbox.hotspots.test_compare import ranking

BUSY = "the times are not to be trusted: other programs kept the CPU busy for 5 ms"


def hotspots() -> list[Hotspot]:
    """Two classes of a package, which took the most time, and two of the project."""
    (one,) = rank(ranking(1.0).recording)
    return [
        *(replace(one, name=name, origin="package") for name in ("Attention", "Mlp")),
        *(replace(one, name=name, origin="project") for name in ("Norm", "Gate")),
    ]


def how(count: int, folder: Path) -> Measuring:
    return Measuring(count, 60.0, "cpu", "", folder)


def test_the_projects_own_classes_come_before_those_of_packages(tmp_path: Path) -> None:
    found = measure_gains(hotspots(), {}, how(3, tmp_path), lambda _: None)
    assert list(found) == ["net:Norm", "net:Gate", "net:Attention"]
    assert {each.unknown for each in found.values()} == {"it was not captured"}


@pytest.mark.parametrize(
    ("end", "first", "then"),
    [(Gain(unknown=BUSY), BUSY, "the machine is busy, see above"), (KeyboardInterrupt(), "interrupted", "interrupted")],
    ids=["busy", "Ctrl-C"],
)
def test_no_more_are_measured_on_a_busy_machine_or_once_the_developer_has_had_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Gain | BaseException, first: str, then: str
) -> None:
    measured = []

    def judge(_: Path, hotspot: Hotspot, *__: object) -> Gain:
        measured.append(hotspot.name)
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(gain, "_measure", judge)
    everything = hotspots()
    found = measure_gains(everything, {each.key: tmp_path for each in everything}, how(3, tmp_path), lambda _: None)
    assert measured == ["Norm"]
    assert [each.unknown for each in found.values()] == [first, then, then]
