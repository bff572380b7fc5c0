from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import GIBIBYTE, JudgeLimits, TierLimits
from sandbox.verdict import GuardReport
from tests.scale_task import Write, write_candidate, write_task

LIMITS = JudgeLimits(
    compile_seconds=0.0,
    optional_seconds=600.0,
    call_seconds=6.0,
    memory_bytes=GIBIBYTE,
    quick=TierLimits(cases=3, placements=2, profile_seconds=0.1, pairs=4, least_pairs=3),
    full=TierLimits(cases=4, placements=5, profile_seconds=0.2, pairs=4, least_pairs=3),
)

BRIEF = replace(LIMITS, full=replace(LIMITS.full, placements=1))
"""For full verdicts that are looked at for what they verify, and not for what they time."""


@pytest.fixture
def candidate(tmp_path: Path) -> Write:
    """Write a workspace of the shared task and return its folder."""
    return partial(write_candidate, tmp_path / "candidate")


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the static guard look away, so that what it would have stopped is run."""
    monkeypatch.setattr("sandbox.trial.check_source", lambda *_: GuardReport(ok=True))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Judge]:
    """One judge for every test of the shared task: what a candidate does must never reach the next one."""
    folder = tmp_path_factory.mktemp("task")
    spec = write_task(folder)
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=folder / "scratch", limits=LIMITS) as shared:
        yield shared
