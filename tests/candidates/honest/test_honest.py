"""No honest candidate is rejected.

All of them together take several minutes: ``python -m tests.candidates`` judges all on the CPU, and
``python -m tests.candidates.compiled`` compiles the CUDA ones. Here the text of every one is looked at, and those are judged
whose style gives a judge most to mistake: they keep something between calls, spread work and join it, write in place, train,
change layouts, compute in narrow numbers, stand beside other classes or torch's own operators, or hide their arithmetic in
assembly, tables and containers. An answer with ``load_inline``, half a minute to build, is among the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.guard import check_source
from tests.candidates.frame import Judges, write_task
from tests.candidates.honest.suite import HONEST
from tests.candidates.tasks import TASKS

JUDGED = [
    "inline assembly for loads, fma and max",
    "assertions and a debug block that prints",
    "two streams forked and joined by events, or two sections",
    "a side stream of torch that waits and is waited for",
    "a row in dynamic shared memory, or in a thread's own scratch",
    "scratch kept between calls, two kernels",
    "weights repacked when their version changes",
    "a graph of two kernels, made anew in each call",
    "scratch from the stream's pool",
    "an autograd function with a backward kernel",
    "a backward of two kernels, only what is needed",
    "a developer's file, its block in one kernel",
    "a developer's file, a kernel in each of two classes",
    "torch's linear layers around a kernel",
    "torch's products into buffers that are kept",
    "an input changed in place",
    "an output argument that is the input",
    "batch statistics, and buffers that move",
    "tensor cores by WMMA",
    "strides passed as numbers",
    "a transposed view written by tiles",
    "a table made at compile time",
    "atomic counters",
    "equal tokens found by a hash map, or rows by warps",
]
READ = [
    (name, device)
    for name, one in HONEST.items()
    for device, files in (("cpu", one.cpp), ("cuda:0", one.cuda))
    if files is not None
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(HONEST[name].task)) for name in JUDGED]
)
def test_an_honest_candidate_is_not_rejected(name: str, judges: Judges) -> None:
    verdict = judges.check(HONEST[name])
    assert verdict.correct, verdict.reason
    assert verdict.guard is not None
    assert [each for each in verdict.guard.findings if each.severity == "reject"] == []


@pytest.mark.parametrize(("name", "device"), READ)
def test_nothing_is_found_in_the_text_of_an_honest_candidate(name: str, device: str, tmp_path: Path) -> None:
    candidate = HONEST[name]
    spec = write_task(TASKS[candidate.task], candidate.task, tmp_path / "project", device)
    report = check_source(candidate.write(tmp_path / "candidate", device), spec)
    assert [each for each in report.findings if each.severity == "reject"] == []
