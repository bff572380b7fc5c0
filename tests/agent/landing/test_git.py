"""The state of a repository is told right, and telling it writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.landing.git import describe
from tests.agent.landing import repositories
from tests.agent.landing.repositories import git, picture


@pytest.mark.parametrize(
    ("make", "summary"),
    [
        (repositories.repository, "main, clean"),
        (repositories.dirty_index, "main, 2 files changed"),
        (repositories.with_stash, "main, clean"),
        (repositories.failing_hooks, "main, clean"),
        (repositories.submodule, "main, clean"),
        (repositories.worktree, "side, clean"),
        (repositories.unborn, "main, no commit yet, clean"),
        (repositories.crlf, "main, clean"),
        (repositories.executable, "main, 1 file changed"),
    ],
)
def test_a_repository_is_described_without_a_trace(tmp_path: Path, make, summary: str) -> None:
    module = make(tmp_path)
    os.utime(module, (1, 1))  # git would note the new time in its index
    before = picture(tmp_path)
    state = describe(module)
    assert state is not None
    assert state.summary == summary
    assert picture(tmp_path) == before


def test_a_detached_head_is_named_by_its_commit(tmp_path: Path) -> None:
    state = describe(repositories.detached(tmp_path))
    assert state is not None
    assert state.head
    assert git(tmp_path, "rev-parse", "HEAD").startswith(state.head)
    assert state.summary == f"detached at {state.head}, clean"


def test_paths_with_blanks_and_conflicts_are_listed(tmp_path: Path) -> None:
    repositories.repository(tmp_path)
    odd = tmp_path / "a file ü.txt"
    odd.write_text("x")
    git(tmp_path, "add", ".")
    state = describe(odd)
    assert state is not None
    assert state.changed == ("a file ü.txt",)


def test_whether_the_file_is_tracked(tmp_path: Path) -> None:
    module = repositories.repository(tmp_path)
    new = module.with_name("new.py")
    new.write_text("")
    states = describe(module), describe(new)
    assert [state.tracked for state in states if state] == [True, False]


def test_no_repository(tmp_path: Path) -> None:
    assert describe(repositories.project(tmp_path)) is None
