"""No honest candidate is rejected."""

from __future__ import annotations

import pytest

from tests.candidates.frame import Judges
from tests.candidates.honest.suite import HONEST

ON_CPU = [
    pytest.param(name, marks=pytest.mark.xdist_group(f"honest-{honest.task}"))
    for name, honest in sorted(HONEST.items(), key=lambda item: item[1].task)
    if honest.runs_on("cpu")
]


@pytest.mark.parametrize("name", ON_CPU)
def test_an_honest_candidate_is_not_rejected(name: str, judges: Judges) -> None:
    verdict = judges.check(HONEST[name])
    assert verdict.correct, verdict.reason
    assert verdict.guard is not None
    assert [each for each in verdict.guard.findings if each.severity == "reject"] == []
