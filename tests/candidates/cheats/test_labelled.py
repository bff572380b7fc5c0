"""What is no cheat by itself is judged as any other candidate: rows K37 and K38.

That a gain of ten times and more is told to the developer is tested with the report of a profile.
"""

from __future__ import annotations

import pytest

from tests.candidates.cheats.labelled import LABELLED
from tests.candidates.frame import Candidate, Judges


@pytest.mark.parametrize("candidate", LABELLED, ids=lambda candidate: candidate.name)
def test_it_is_not_rejected(candidate: Candidate, judges: Judges) -> None:
    verdict = judges.check(candidate)
    assert verdict.correct, verdict.reason
    assert verdict.guard is not None
    assert ("less-careful" in {finding.rule for finding in verdict.guard.findings}) == (candidate.row == "K37")
