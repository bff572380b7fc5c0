"""What the suites of candidates share: tasks, candidates on paper, and judges that are opened once for each task."""

from __future__ import annotations

import contextlib
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from sandbox.isolation import Isolation, best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import GIBIBYTE, JudgeLimits, TierLimits
from sandbox.task import TaskSpec
from sandbox.verdict import GuardReport, Tier, Verdict

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
"""
"""What the files of tasks begin with."""

_OPEN_AT_ONCE = 2
"""Judges that are kept open: each keeps a process with the reference."""

CPU_LIMITS = JudgeLimits(
    compile_seconds=0.0,
    optional_seconds=600.0,
    call_seconds=6.0,
    memory_bytes=3 * GIBIBYTE,
    quick=TierLimits(cases=3, placements=2, profile_seconds=0.1, pairs=4, least_pairs=3),
    full=TierLimits(cases=4, placements=3, profile_seconds=0.2, pairs=4, least_pairs=3),
)
"""Everything is verified and guarded as always; only the timing is short, and no baseline is compiled. The memory is what
``load_inline`` needs to compile torch's headers."""

CUDA_LIMITS = JudgeLimits(compile_seconds=0.0, call_seconds=10.0)


@dataclass(frozen=True)
class Task:
    """A reference that candidates are written for.

    Attributes:
        source: A KernelBench file, or a developer's own with ``kind`` among the options; words in capitals that ``small``
            and ``large`` name are replaced by numbers.
        small: Sizes on a CPU.
        large: Sizes on a GPU, where a call has to take longer than its launch.
        options: What differs from a task's defaults, by the names of ``TaskSpec``.
    """

    source: str
    small: Mapping[str, int] = field(default_factory=dict)
    large: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A candidate on paper.

    Attributes:
        name: What it does, in a few words; unique in its suite.
        task: The name of its task.
        python: Its ``model_new.py``.
        cpp: Its kernel files on a CPU, by name without suffix; None where it has no meaning there.
        cuda: The same on a GPU.
        tier: The tier that it is judged in.
        row: For a cheat, its row in the catalogue of cheats, such as ``K09``.
        file: The name of its Python file; for a task from a developer's own file, the name of that file.
    """

    name: str
    task: str
    python: str
    cpp: Mapping[str, str] | None = None
    cuda: Mapping[str, str] | None = None
    tier: Tier = "quick"
    row: str = ""
    file: str = "model_new.py"

    def runs_on(self, device: str) -> bool:
        """Whether it has a meaning on a device."""
        return (self.cpp if device == "cpu" else self.cuda) is not None

    def write(self, folder: Path, device: str) -> Path:
        """Write it as a workspace and return the folder."""
        (folder / "kernels").mkdir(parents=True)
        (folder / self.file).write_text(self.python)
        files = self.cpp if device == "cpu" else self.cuda
        for name, text in (files or {}).items():
            suffix = ".cpp" if device == "cpu" else ".cu"
            (folder / "kernels" / (name if "." in name else name + suffix)).write_text(text)
        return folder


@dataclass
class Judges:
    """Judges of tasks, opened when they are asked for; the longest unused is closed where there are too many."""

    tasks: Mapping[str, Task]
    folder: Path
    device: str = "cpu"
    limits: JudgeLimits | None = None
    isolation: Isolation | None = None
    _open: OrderedDict[str, tuple[Judge, contextlib.ExitStack]] = field(default_factory=OrderedDict)
    _written: int = 0

    def check(self, candidate: Candidate, *, guarded: bool = True) -> Verdict:
        """Judge a candidate; without ``guarded`` the static guard looks away, so that the others can be seen at work."""
        self._written += 1
        workspace = candidate.write(self.folder / f"candidate-{self._written}", self.device)
        judge = self.of(candidate.task)
        with contextlib.nullcontext() if guarded else looking_away():
            return judge.check(workspace, candidate.tier)

    def of(self, name: str) -> Judge:
        """Return the judge of a task."""
        if name not in self._open:
            while len(self._open) >= _OPEN_AT_ONCE:
                self._open.popitem(last=False)[1][1].close()
            self._open[name] = self._opened(name)
        self._open.move_to_end(name)
        return self._open[name][0]

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1][1].close()

    def _opened(self, name: str) -> tuple[Judge, contextlib.ExitStack]:
        limits = self.limits or (CPU_LIMITS if self.device == "cpu" else CUDA_LIMITS)
        folder = self.folder / name
        spec = write_task(self.tasks[name], name, folder / "project", self.device)
        judge = Judge(
            spec,
            isolation=self.isolation or best_isolation(),
            cache=self.folder / "cache",
            scratch=folder / "scratch",
            limits=limits,
        )
        stack = contextlib.ExitStack()
        stack.enter_context(judge)
        return judge, stack


def write_task(task: Task, name: str, folder: Path, device: str) -> TaskSpec:
    """Write a task's file into a project of its own and return its spec."""
    folder.mkdir(parents=True, exist_ok=True)
    source = task.source
    for word, size in (task.small if device == "cpu" else task.large).items():
        source = source.replace(word, str(size))
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = TaskSpec("kernelbench", path, "Model", name, folder, Path(sys.executable), device=device)
    return spec.with_changes(**task.options)


@contextmanager
def looking_away() -> Iterator[None]:
    """Let the static guard find nothing."""
    with mock.patch("sandbox.trial.check_source", return_value=GuardReport(ok=True)):
        yield


def caught_by(verdict: Verdict) -> str:
    """Return what rejected a candidate: the part, and the rule or the case; an empty text where nothing did."""
    if verdict.reward != -1:
        return ""
    if verdict.guard is not None and not verdict.guard.ok:
        return "guard: " + ", ".join(
            sorted({each.rule for each in verdict.guard.findings if each.severity == "reject"})
        )
    if verdict.verify is not None and not verdict.verify.ok:
        return "verify: " + ", ".join(case.name for case in verdict.verify.cases if not case.ok)
    if verdict.build is not None and not verdict.build.ok:
        return "build"
    return f"verdict: {verdict.reason}"
