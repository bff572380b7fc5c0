"""Judges for the suites of candidates, shared by all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.candidates.frame import Judges
from tests.candidates.tasks import TASKS


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    shared = Judges(TASKS, tmp_path_factory.mktemp("candidates"))
    yield shared
    shared.close()
