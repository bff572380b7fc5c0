"""Candidates in the isolations that this machine would not choose by itself; the static guard looks away from the cheats.

One of each kind here; ``make docker`` has all candidates and a longer storm judged in containers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.isolation import probe
from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Judges, caught_by
from tests.candidates.tasks import TASKS
from tests.candidates.test_harness_rows import scale_add
from tests.levels import isolation_named

REACHING_OUT = [
    "K51 a library is downloaded at the first call",
    "K53 the reference's file is written to by a library, before it is called",
    "K56 right only where the parent's memory can be entered",
]
"""Cheats for the shared task that need what isolation keeps away."""
COMPUTING = [
    "K04 only what is positive is written",
    "K17 a thread that is let go",
    "K24 honest where calls are far apart",
    "K52 a library that leaves with success while it is loaded",
    "K57 what is written as JSON gets smaller",
]
"""Cheats that fail whatever they can reach: by their answers, by what they leave running, by who does the sums."""

LEVELS = [
    pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.xdist_group("docker")]),
    pytest.param("bubblewrap", marks=pytest.mark.xdist_group("bubblewrap")),  # its workers are in limits
]


@pytest.fixture(scope="module", params=LEVELS)
def elsewhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    if reason := probe(request.param):
        pytest.skip(f"{request.param}: {reason}")
    judges = Judges(TASKS, tmp_path_factory.mktemp(request.param), isolation=isolation_named(request.param))
    yield judges
    judges.close()


def test_an_honest_candidate_passes(elsewhere: Judges) -> None:
    verdict = elsewhere.check(scale_add())
    assert verdict.correct, verdict.reason
    assert elsewhere.isolation is not None
    told = (verdict.environment["isolation"], verdict.environment["worker_isolation"])
    assert told == (elsewhere.isolation.name, elsewhere.isolation.workers)


@pytest.mark.parametrize("name", [*REACHING_OUT, *COMPUTING])
def test_a_cheat_is_rejected_without_its_text_being_read(name: str, elsewhere: Judges) -> None:
    verdict = elsewhere.check(CHEATS[name], guarded=False)
    assert caught_by(verdict), verdict.reason
