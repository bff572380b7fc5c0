"""Which placements a verdict rests on where the machine is busy; the placements themselves are given."""

from __future__ import annotations

from collections.abc import Iterator
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

    def _prepare(self, _: list[str] | None) -> Modes:
        return Modes(("eager",))

    def _place(self, *_: Any) -> PlacementTimes:
        quiet = self.quiet.pop(0) if len(self.quiet) > 1 else self.quiet[0]
        times = {"candidate": [10.0] * 10, "eager": [20.0] * 10, "copy": [5.0] * 10}
        return PlacementTimes(device=times, latency=times, disturbed="" if quiet else "others ran")

    @contextmanager
    def _leased(self) -> Iterator[Any]:
        yield NoWatch("")


def report(monkeypatch: pytest.MonkeyPatch, *quiet: bool) -> ProfileReport:
    monkeypatch.setattr(timekeeper, "waits", lambda _: (0.0,) * 5)
    crew: Any = SimpleNamespace(environment={}, crowded=False, check=lambda: None, room_for=lambda _: False)
    spec: Any = SimpleNamespace(judged_by="device")
    keeper = Given(crew, spec, "full", JudgeLimits(), lambda _: None)
    keeper.quiet = list(quiet)
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
