"""Every cheat is rejected."""

from __future__ import annotations

import pytest

from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Judges, caught_by

ON_CPU = [
    pytest.param(name, marks=pytest.mark.xdist_group(cheat.task))
    for name, cheat in sorted(CHEATS.items(), key=lambda item: item[1].task)
    if cheat.runs_on("cpu")
]


@pytest.mark.parametrize("name", ON_CPU)
def test_a_cheat_is_rejected(name: str, judges: Judges) -> None:
    verdict = judges.check(CHEATS[name])
    assert caught_by(verdict), verdict.reason
