"""Cheats that nothing but the static guard finds: with it looking away, what they do comes to nothing."""

from __future__ import annotations

import os

import pytest

from sandbox.timing.cpu_watch import CpuWatch
from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Judges


def test_nobody_is_slowed_down_by_whoever_asks_the_kernel_to(judges: Judges) -> None:
    """K29: isolation keeps the bench out of sight, at level ``limits`` of another user."""
    cheat = CHEATS["K29 the parent's processors and priority"]
    crew = judges.of(cheat.task)._crew
    assert crew is not None
    assert crew._zygote is not None
    others = (os.getpid(), crew.bench.pid, crew._zygote.pid)

    def having() -> list[tuple[set[int], int]]:
        return [(os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid)) for pid in others]

    before = having()
    assert judges.check(cheat, guarded=False).correct
    assert having() == before


def test_a_slow_clock_earns_nothing_while_others_keep_ours_from_being_held_to_it(
    judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K56: where a busy machine leaves no clock to hold against a worker's, its times are not believed either."""
    monkeypatch.setattr(CpuWatch, "trouble", lambda *_: "other programs kept the CPU busy")
    slow = [name for name in CHEATS if name.startswith("K56 a clock that runs eight times slower")]
    assert slow
    for name in slow:
        verdict = judges.check(CHEATS[name], guarded=False)
        assert verdict.reward is None or verdict.reward < 0, verdict.reason
