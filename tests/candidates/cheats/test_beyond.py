"""Row K47: what reaches beyond a tensor, which every verdict finds, is found by the sanitizers with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.looking.sanitizer import sanitize
from tests.candidates.cheats.soundness import BEYOND
from tests.candidates.frame import Candidate, Judges


@pytest.mark.parametrize("candidate", BEYOND, ids=lambda candidate: candidate.name)
def test_it_is_found_with_its_kind(candidate: Candidate, judges: Judges, tmp_path: Path) -> None:
    report = judges.of(candidate.task).study(candidate.write(tmp_path / "candidate", "cpu"), sanitize)
    assert report.ok is False, report
    assert any("heap-buffer-overflow" in finding.kind for finding in report.findings), report.findings
