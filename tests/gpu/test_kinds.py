"""Every kind of task on a GPU, in full, with the reference as its own candidate; ``python -m tests.gpu.kinds`` adds up."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from tests.conftest import skip_if_disturbed
from tests.gpu.kinds.kinds import KINDS, write_kind, wrongs

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_right_and_wins_nothing(kind: str, tmp_path: Path) -> None:
    spec, candidate = write_kind(kind, tmp_path, "cuda:0")
    with Judge(spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch") as judge:
        verdict = judge.check(candidate, "full")
    assert wrongs(verdict) == []
    assert verdict.profile
    skip_if_disturbed(verdict.profile.disturbed)
    assert verdict.reward == 1
