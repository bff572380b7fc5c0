"""What tests on a GPU share."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.scale_task import Write, write_candidate

collect_ignore_glob = ["walks/*"]
"""Their tests are those of other projects, which run in clones of them."""


@pytest.fixture
def candidate(tmp_path: Path) -> Write:
    """Write a workspace of the small task with a CUDA kernel and return its folder."""
    return partial(write_candidate, tmp_path / "candidate", suffix=".cu")
