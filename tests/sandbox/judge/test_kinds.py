"""References as their own candidates, of kinds that a judge easily wrongs; ``python -m tests.gpu.kinds`` has the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from tests.gpu.kinds.kinds import write_kind, wrongs
from tests.sandbox.judge.conftest import BRIEF, LIMITS

pytestmark = pytest.mark.xdist_group("judge")


@pytest.mark.parametrize("kind", ["complex_views", "in_place", "train_mode"])
def test_the_reference_is_right(kind: str, tmp_path: Path, cache: Path) -> None:
    spec, candidate = write_kind(kind, tmp_path, "cpu")
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=tmp_path / "scratch", limits=BRIEF) as judge:
        verdict = judge.check(candidate, "full")
    assert wrongs(replace(verdict, reward=None)) == []  # that it wins nothing takes a machine that does nothing else


def test_without_cases_only_timed_calls_are_compared(tmp_path: Path, cache: Path) -> None:
    spec, candidate = write_kind("pointwise", tmp_path, "cpu")
    limits = replace(LIMITS, quick=replace(LIMITS.quick, cases=0))
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=tmp_path / "scratch", limits=limits) as judge:
        verdict = judge.check(candidate)
    assert verdict.verify
    assert verdict.verify.notes == ("nothing but timed calls was compared",)
    assert verdict.correct, verdict.reason
    assert {case.name for case in verdict.verify.cases} == {"a timed call"}
    assert verdict.profile
