"""What isolation and guard add to a quick verdict, level by level, the levels taking turns in one run.

No isolation at all is no level, so that each level is set beside the weakest, ``limits``. What the dynamic guard costs cannot be
told apart: it watches the same calls that verifying makes.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from sandbox.isolation import Cell, Isolation, probe
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.verdict import Verdict
from tests.bench.row import Row
from tests.bench.workspace import bench_task, edit, make_workspace
from tests.levels import LOCAL, isolation_named

ROUNDS = 3
STARTS = 9
_LEAST = "limits"
_LIMITS = JudgeLimits(compile_seconds=0.0)
"""The usual quick verdict, but for the baselines that torch.compile makes once a task: those have no isolation."""


def rows(device: str) -> Iterator[Row]:
    """Start programs and judge the same kernel in each level that this machine allows."""
    levels = _levels()
    for name in ("namespaces", "bubblewrap", "docker"):
        if name not in levels:
            yield Row(f"no {name} here", 0, "s", note=probe(name))
    starts = _starts(levels)
    for name, seconds in starts.items():
        yield Row(f"start of a program: {name}", 1000 * seconds, "ms", None, 1000 * starts[_LEAST], f"usual: {_LEAST}")
    verdicts = _verdicts(levels, device)
    least = verdicts[_LEAST]
    for name, made in verdicts.items():
        total = median(each.seconds.total for each in made)
        usual = median(each.seconds.total for each in least)
        workers = levels[name].workers
        note = f"usual: {_LEAST}" if workers == name else f"usual: {_LEAST}; workers in {workers}"
        yield Row(f"quick verdict: {name}", total, "s", None, usual, note)
        for part in ("build", "verify", "profile"):
            ours, theirs = (median(getattr(each.seconds, part) for each in each_made) for each_made in (made, least))
            yield Row(f"  {name}: {part}", ours, "s", None, theirs)
    every = [verdict for made in verdicts.values() for verdict in made]
    guard = median(each.seconds.guard for each in every)
    without = median(each.seconds.total - each.seconds.guard for each in every)
    yield Row(
        "quick verdict, static guard included", without + guard, "s", None, without, f"usual: without; {guard:.3f} s"
    )


def _levels() -> dict[str, Isolation]:
    """Return the levels to be had, the weakest first."""
    return {name: isolation_named(name) for name in (*LOCAL, "docker") if not probe(name)}


def _starts(levels: Mapping[str, Isolation]) -> dict[str, float]:
    """Return the median seconds from asking for a program in a cell to its end."""
    times: dict[str, list[float]] = {name: [] for name in levels}
    for _ in range(STARTS):
        for name, level in levels.items():
            began = time.perf_counter()
            process = level.popen(["true"], Cell((), (), Path("/")), stdin=subprocess.DEVNULL)
            process.wait()
            level.kill(process)
            times[name].append(time.perf_counter() - began)
    return {name: median(each) for name, each in times.items()}


def _verdicts(levels: Mapping[str, Isolation], device: str) -> dict[str, list[Verdict]]:
    """Judge an edited kernel some rounds, in each level in turn; the first round warms up."""
    made: dict[str, list[Verdict]] = {name: [] for name in levels}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpsmith-bench-")))
        folder = make_workspace(scratch / "candidate", device)
        cache = scratch / "cache"
        judges = {
            name: stack.enter_context(
                Judge(bench_task(device), isolation=level, cache=cache, scratch=scratch, limits=_LIMITS)
            )
            for name, level in levels.items()
        }
        for number in range(ROUNDS + 1):
            for name, judge in judges.items():
                edit(folder)
                verdict = judge.check(folder, "quick")
                assert verdict.correct, verdict.reason
                if number:
                    made[name].append(verdict)
    return made
