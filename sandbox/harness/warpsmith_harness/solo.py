"""Runs the candidate alone, once, for a tool that looks at the process from outside: a profiler or a sanitizer.

It serves nobody and is trusted with nothing: it makes its own inputs, and what it says of itself is only how it failed.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import torch

from warpsmith_harness import kernels, load, values
from warpsmith_harness.candidate import load_candidate
from warpsmith_harness.load import TaskProblem
from warpsmith_harness.problems import CandidateProblem, place, summary
from warpsmith_harness.surroundings import surroundings
from warpsmith_harness.threads import all_threads

_cuda: Any = torch.cuda


def main(arguments: List[str]) -> int:
    """Run the candidate as the JSON file says that is named; what it raised is written to ``told``: ``what`` and ``where``.

    Options: ``spec``, ``folder`` (the candidate's), ``manifest`` and ``kernels`` (as for a worker), ``threads``, ``strength``
    (how far the state is randomised), ``warm`` (calls before the one that is looked at), ``bracket`` (whether that one alone
    is between the profiler's start and stop), ``told`` (a file).
    """
    options: Dict[str, Any] = json.loads(Path(arguments[0]).read_text())
    try:
        _run(options)
        return 0
    except (CandidateProblem, TaskProblem) as problem:
        return _tell(options, problem.what, problem.where)
    except Exception as error:
        return _tell(options, summary(error), place(error, Path(options["folder"]), relative=True))


def _run(options: Dict[str, Any]) -> None:
    task = load.load_task(options["spec"])
    if task.device.type == "cuda":
        torch.cuda.set_device(task.device)
        torch.zeros(1, device=task.device)
    bound = None if options["manifest"] is None else kernels.bind(options["manifest"], options["kernels"])
    candidate = load_candidate(task, options["folder"], bound)
    values.randomise_state(candidate, options["strength"])
    args, kwargs = task.inputs()

    def call() -> Any:
        with surroundings(task.spec), all_threads(options["threads"]):
            output = candidate(*args, **kwargs)
        settle()
        return output

    def settle() -> None:
        if task.device.type == "cuda":
            torch.cuda.synchronize(task.device)

    settle()
    for _ in range(options["warm"]):
        call()
    with _profiled() if options["bracket"] else contextlib.nullcontext():
        output = call()
    _take(output)


@contextlib.contextmanager
def _profiled() -> Iterator[None]:
    """Let a profiler that waits for it look at what happens inside."""
    runtime: Callable[[], Any] = _cuda.cudart
    runtime().cudaProfilerStart()
    try:
        yield
    finally:
        runtime().cudaProfilerStop()


def _take(output: Any) -> None:
    """Copy every output to the host, as whoever uses it would: a sanitizer sees what was never written."""
    for tensor in values.flatten(output)[0]:
        tensor.detach().cpu()


def _tell(options: Dict[str, Any], what: str, where: str) -> int:
    Path(options["told"]).write_text(json.dumps({"what": what, "where": where}))
    sys.stderr.write(f"{where}: {what}\n" if where else f"{what}\n")
    return 1
