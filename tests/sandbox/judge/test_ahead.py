"""What was built ahead of a check is what the check finds, and never stands for kernels that are others."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from sandbox.judge import Judge
from sandbox.progress import Stage
from sandbox.verdict import Verdict
from tests.scale_task import Write, kernel


def checked(judge: Judge, folder: Path) -> tuple[Verdict, list[str]]:
    """Return the verdict, and which files were compiled for it."""
    told: list[Stage] = []
    verdict = judge.check(folder, progress=told.append)
    return verdict, [stage.text for stage in told if stage.text.startswith("compiling")]


@pytest.mark.parametrize(("before", "correct"), [("int ahead = 1; (void)ahead;", True), ("int ahead = ;", False)])
def test_a_check_compiles_nothing_that_was_built_ahead(
    judge: Judge, candidate: Write, before: str, correct: bool
) -> None:
    folder = candidate(kernel(before=before))
    judge.build_ahead(folder)
    verdict, compiled = checked(judge, folder)
    assert (verdict.correct, compiled) == (correct, [])
    assert verdict.build is not None
    assert verdict.build.ok == correct
    assert len(verdict.build.diagnostics) == (not correct)


def test_other_kernels_than_those_built_ahead_are_built(judge: Judge, candidate: Write) -> None:
    judge.build_ahead(candidate(kernel(before="int other = ;")))
    verdict, compiled = checked(judge, candidate(kernel(before="int others = 2; (void)others;")))
    assert verdict.correct, verdict.reason
    assert len(compiled) == 1


def test_what_was_built_ahead_and_pruned_since_is_built_again(judge: Judge, candidate: Write, cache: Path) -> None:
    folder = candidate(kernel(before="int gone = 3; (void)gone;"))
    judge.build_ahead(folder)
    for part in ("libraries", "objects"):
        shutil.rmtree(cache / "kernels" / part)
    verdict, compiled = checked(judge, folder)
    assert verdict.correct, verdict.reason
    assert len(compiled) == 1


def test_a_build_ahead_that_was_stopped_leaves_nothing_that_a_check_could_take_for_a_build(
    judge: Judge, candidate: Write
) -> None:
    folder = candidate(kernel(before="int stopped = 4; (void)stopped;"))
    cancel = threading.Event()
    cancel.set()
    judge.build_ahead(folder, cancel)
    verdict, compiled = checked(judge, folder)
    assert verdict.correct, verdict.reason
    assert len(compiled) == 1
