"""A task whose tensors fill 60 % of the device, by a device that is taken for that small: judged with one copy of its inputs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.processes import family
from sandbox.verdict import Verdict
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import MODEL_NEW, Write, kernel, reference, write_candidate, write_task

pytestmark = pytest.mark.xdist_group("crowded")

UNIT = 32 << 20
"""Bytes of each of two inputs and the output."""
COLUMNS = 16384
CACHED = MODEL_NEW.replace(
    "out = torch.empty_like(x)\n",
    "if hasattr(self, 'kept'):\n            return self.kept\n        out = self.kept = torch.empty_like(x)\n",
)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("crowded")
    spec = write_task(folder, reference(UNIT // 4 // COLUMNS, COLUMNS))
    quick = replace(LIMITS.quick, cases=2, placements=1)
    limits = replace(LIMITS, device_memory=int(3 * UNIT / 0.6), call_seconds=30.0, quick=quick)
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=folder / "scratch", limits=limits) as judge:
        yield judge


SUM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(1)

def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]

def get_init_inputs():
    return []
"""
KEPT = """
    def forward(self, x):
        if not hasattr(self, "kept"):
            self.kept = x.sum(1)
        return self.kept
"""


@pytest.fixture(scope="module")
def only_once(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Judge]:
    """A task of which nearly all are inputs: there is no room for other ones beside those that a worker has."""
    folder = tmp_path_factory.mktemp("once")
    source = SUM.replace("ROWS", str(UNIT // 4 // COLUMNS)).replace("COLUMNS", str(COLUMNS))
    spec = write_task(folder, source, policy="library-ok")
    quick = replace(LIMITS.quick, cases=2, placements=1)
    limits = replace(LIMITS, device_memory=int(UNIT / 0.58), call_seconds=30.0, quick=quick)
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=folder / "scratch", limits=limits) as judge:
        yield judge


@pytest.fixture
def candidate(tmp_path: Path) -> Write:
    return partial(write_candidate, tmp_path / "candidate")


class Peak:
    """The most memory that the bench, and any worker, held at one moment beyond what they begin with."""

    def __init__(self, bench: int, zygote: int) -> None:
        self._bench, self._zygote = bench, zygote
        self._at_first = _held(bench)
        self._ended = threading.Event()
        self.bench = self.worker = 0
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        idle = _held(self._zygote)
        while not self._ended.wait(0.002):
            self.bench = max(self.bench, _held(self._bench) - self._at_first)
            self.worker = max([self.worker, *(_held(pid) - idle for pid in family(self._zygote))])


def _held(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


@contextmanager
def peak(judge: Judge) -> Iterator[Peak]:
    crew = judge._crew
    assert crew is not None
    assert crew._zygote is not None
    found = Peak(crew.bench.pid, crew._zygote.pid)
    try:
        yield found
    finally:
        found.end()


def rejected(verdict: Verdict, words: str) -> None:
    assert verdict.reward == -1, verdict.reason
    assert words in verdict.reason


def test_it_is_judged_with_few_copies_and_says_how(crowded: Judge, candidate: Write) -> None:
    with peak(crowded) as most:
        verdict = crowded.check(candidate())
    assert verdict.correct, verdict.reason
    assert verdict.verify is not None
    assert "the oracle holds 16 of 512 rows" in verdict.verify.notes[0]
    assert [case.name for case in verdict.verify.cases[:2]] == ["fresh inputs 1", "fresh inputs 2"]
    assert verdict.profile is not None
    assert verdict.profile.disturbed or "a timed call" in {case.name for case in verdict.verify.cases}
    # Inputs are 2 units, the output is 1. As usual the bench would hold 48 of them, and the worker 20. Here the bench holds
    # the inputs, outputs twice, and in comparing a dozen pieces as large as a unit; the worker inputs and output, and beside
    # them what was freed and stays with the process until it is used again.
    assert 2 * UNIT < most.bench < 20 * UNIT
    assert 2 * UNIT < most.worker < 10 * UNIT


def test_an_answer_kept_from_another_call_is_wrong(crowded: Judge, candidate: Write) -> None:
    rejected(crowded.check(candidate(python=CACHED)), "fresh inputs 2")


def test_what_writes_to_the_inputs_that_are_lent_is_found(crowded: Judge, candidate: Write) -> None:
    spoiling = kernel(after="for (int64_t i = 0; i < 64; ++i) ((float*)x)[i] = 0;")
    rejected(crowded.check(candidate(spoiling)), "input 0")


@pytest.mark.parametrize("body", ["", KEPT], ids=["the original", "an answer kept from another call"])
def test_inputs_that_fit_only_once_are_renewed_where_they_lie(only_once: Judge, tmp_path: Path, body: str) -> None:
    source = Path(only_once.spec.path).read_text().replace("class Model(", "class ModelNew(")
    (tmp_path / "model_new.py").write_text(re.sub(r"    def forward.*?\n\n", body or r"\g<0>", source, flags=re.DOTALL))
    verdict = only_once.check(tmp_path)
    if body:
        rejected(verdict, "fresh inputs 2")
    else:
        assert verdict.correct, verdict.reason
        assert verdict.verify is not None
        names = {case.name for case in verdict.verify.cases}
        assert {"fresh inputs 1", "fresh inputs 2"} <= names
        assert verdict.profile is not None
        assert verdict.profile.disturbed or "a timed call" in names
