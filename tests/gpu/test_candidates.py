"""Both suites of candidates on a GPU: every cheat is caught, no honest candidate is rejected; ``pytest -s`` shows the table.

``python -m tests.candidates --device cuda:0`` prints the same and looks at each cheat without the static guard too.
Up to 25 candidates of one task share a judge; with ``pytest -n 8 --dist loadgroup`` several judges work side by side, for
only timing has the device alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from _pytest.mark import ParameterSet

from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Candidate, Judges, caught_by
from tests.candidates.honest.suite import HONEST
from tests.candidates.tasks import TASKS

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]

DEVICE = "cuda:0"
TOGETHER = 25
"""More than half of the cheats are for one task."""


def by_task(suite: Mapping[str, Candidate]) -> list[ParameterSet]:
    """Return the names of those that have a meaning on the device, grouped by their tasks."""
    grouped, so_far = [], Counter[str]()
    for name, one in sorted(suite.items(), key=lambda item: item[1].task):
        if one.runs_on(DEVICE):
            group = f"{one.task} {so_far[one.task] // TOGETHER}"
            so_far[one.task] += 1
            grouped.append(pytest.param(name, marks=pytest.mark.xdist_group(group)))
    return grouped


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    """Judges of the tasks at the sizes of a GPU."""
    shared = Judges(TASKS, tmp_path_factory.mktemp("candidates"), DEVICE)
    yield shared
    shared.close()


@pytest.mark.parametrize("name", by_task(HONEST))
def test_an_honest_candidate_is_not_rejected(name: str, judges: Judges) -> None:
    verdict = judges.check(HONEST[name])
    print(f"\nhonest  {name:60} {caught_by(verdict) or 'passes'}, reward {verdict.reward}: {verdict.reason}")
    assert verdict.correct, verdict.reason
    assert verdict.guard is not None
    assert [each for each in verdict.guard.findings if each.severity == "reject"] == []


@pytest.mark.parametrize("name", by_task(CHEATS))
def test_a_cheat_is_rejected(name: str, judges: Judges) -> None:
    verdict = judges.check(CHEATS[name])
    print(f"\ncheat   {name:60} {caught_by(verdict) or 'MISSED'}")
    assert caught_by(verdict), verdict.reason
