"""Which placements a verdict rests on where the machine is busy or the gain is large; the placements themselves are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.judge_limits import JudgeLimits
from sandbox.timing import timekeeper
from sandbox.timing.gpu_watch import NoWatch
from sandbox.timing.profile_report import Modes
from sandbox.timing.profiling import PlacementTimes
from sandbox.timing.timekeeper import Timekeeper
from sandbox.verdict import ProfileReport


class Given(Timekeeper):
    """Draws the placements it was given, quiet or disturbed, and the last one for ever."""

    quiet: list[bool]
    us: list[float]

    def _prepare(self, _: list[str] | None) -> Modes:
        return Modes(("eager",))

    def _place(self, *_: Any) -> PlacementTimes:
        quiet = self.quiet.pop(0) if len(self.quiet) > 1 else self.quiet[0]
        us = self.us.pop(0) if len(self.us) > 1 else self.us[0]
        times = {"candidate": [us] * 10, "eager": [20.0] * 10, "copy": [5.0] * 10}
        return PlacementTimes(device=times, latency=times, disturbed="" if quiet else "others ran")

    @contextmanager
    def _leased(self) -> Iterator[Any]:
        yield NoWatch("")


def report(monkeypatch: pytest.MonkeyPatch, *quiet: bool, us: Sequence[float] = (10.0,)) -> ProfileReport:
    monkeypatch.setattr(timekeeper, "waits", lambda _: (0.0,) * 5)
    crew: Any = SimpleNamespace(environment={}, crowded=False, check=lambda: None, room_for=lambda _: False)
    spec: Any = SimpleNamespace(judged_by="device")
    keeper = Given(crew, spec, "full", JudgeLimits(), lambda _: None)
    keeper.quiet, keeper.us = list(quiet), list(us)
    return keeper.time_candidate(lambda: None, lambda _: None).report  # type: ignore[arg-type, return-value]  # no worker is started


@pytest.mark.parametrize(
    ("quiet", "kept", "disturbed"),
    [
        ((True, False, False, False, True), 5, False),
        ((True, True, True, False), 4, True),
    ],
    ids=["it grew quiet", "it did not"],
)
def test_disturbed_placements_are_drawn_again_until_there_are_enough_quiet_ones(
    monkeypatch: pytest.MonkeyPatch, quiet: tuple[bool, ...], kept: int, disturbed: bool
) -> None:
    told = report(monkeypatch, *quiet)
    assert len(told.samples["eager"]) == kept
    assert bool(told.disturbed) == disturbed


@pytest.mark.parametrize(
    ("us", "placements", "words"),
    [
        ([10.0], 5, []),
        ([5.0], 6, ["measured again on new inputs: 4.00 times"]),
        ([5.0] * 5 + [15.0], 6, ["measured again on new inputs: 1.33 times", "the two measurements disagree"]),
    ],
    ids=["twice as fast", "four times", "four times, which the second look does not show"],
)
def test_a_gain_over_three_times_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, us: list[float], placements: int, words: list[str]
) -> None:
    told = report(monkeypatch, True, us=us)
    assert len(told.samples["eager"]) == placements
    found = [note for note in told.notes if "measure" in note]
    assert len(found) == len(words)
    assert all(word in note for word, note in zip(words, found, strict=True))
