"""Faults of building that are nobody's in the candidate: they never become its failure, and never leave it without a verdict."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sandbox.build.toolchain import find_ninja
from sandbox.judge import Judge
from sandbox.progress import Stage
from tests.scale_task import MODEL_NEW, Write, kernel


@pytest.mark.usefixtures("unguarded")
def test_a_candidate_that_compiles_its_own_extension_has_ninja_wherever_it_runs(judge: Judge, candidate: Write) -> None:
    python = "import os, shutil  # torch.utils.cpp_extension\nraise RuntimeError(shutil.which('ninja', path=os.environ['PATH']"
    verdict = judge.check(candidate(python=f"{python}.rpartition(':')[2]))\n" + MODEL_NEW))
    assert str(find_ninja()) in verdict.reason


def test_kernels_that_were_pruned_meanwhile_are_built_again(judge: Judge, candidate: Write, cache: Path) -> None:
    pruned: list[Stage] = []

    def prune(stage: Stage) -> None:
        if stage.part == "verify" and not pruned:
            pruned.append(stage)
            shutil.rmtree(cache / "kernels/libraries")
            shutil.rmtree(cache / "kernels/objects")

    verdict = judge.check(candidate(kernel(before="int pruned = 0; (void)pruned;")), progress=prune)
    assert pruned
    assert verdict.correct, verdict.reason


def test_the_word_lock_in_a_compile_error_is_an_error_like_any_other(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(before="FileLock lock; // please retry: lock file exists")))
    assert verdict.reward == -1
    assert "FileLock" in verdict.reason
    assert verdict.build.diagnostics[0].line == 5
