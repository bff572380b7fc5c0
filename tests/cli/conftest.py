"""The command line as a user runs it: a process, its exit code and what it prints; nothing may be left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

COMMAND = [str(Path(sys.executable).parent / "warpsmith")]
"""The installed script: unlike ``python -m``, it looks for nothing in the current folder."""

MARK = "WARPSMITH_TEST_RUN"

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        return torch.relu(x * self.weight + y)

def get_inputs():
    return [torch.randn(16, 256), torch.randn(16, 256)]

def get_init_inputs():
    return [256]
"""

CANDIDATE = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        out = torch.empty_like(x)
        scale_add(x, self.weight, y, out, x.shape[0], x.shape[1])
        return out
"""

KERNEL = """
#include <cstdint>
INCLUDES
extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  BEFORE
  for (int64_t i = 0; i < n * d; ++i) {
    const float value = x[i] * w[i % d] + y[i];
    out[i] = value > 0 ? value : 0;
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def says(self, *words: str) -> None:
        """Check that it told what a person needs, and that nothing of ours broke."""
        for word in words:
            assert word in self.err + self.out, f"{word!r} is missing in:\n{self.err}\n{self.out}"
        assert "Traceback" not in self.err, self.err


@dataclass
class Cli:
    """Runs commands with a home, a cache and a temporary folder of their own, in ``folder``."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.variables},
        )

    def run(self, *arguments: str | Path, seconds: float = 240) -> Done:
        """Run a command to its end."""
        return self.finish(self.start(*arguments), seconds)

    def finish(self, process: subprocess.Popen[str], seconds: float = 240) -> Done:
        """Wait for a command's end; kill it and fail when that does not come."""
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return Done(process.returncode, out, err)

    def check(self, task: Path, candidate: Path, *options: str | Path) -> Done:
        """Judge a candidate on the CPU."""
        return self.run("check", task, candidate, "--device", "cpu", *options)

    def processes(self) -> list[psutil.Process]:
        """Return every process that descends from a command of this test."""
        return [process for process in psutil.process_iter() if self.variables[MARK] == _mark(process)]

    def left_behind(self) -> list[object]:
        """Return processes that still run and temporary folders that are still there; those dying get some time."""
        deadline = time.monotonic() + 20
        while (left := [*self._running(), *self._files()]) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _files(self) -> list[Path]:
        return list(Path(self.variables["TMPDIR"]).iterdir())

    def _running(self) -> list[str]:
        return [" ".join(p.cmdline()[:4]) for p in self.processes() if p.status() != psutil.STATUS_ZOMBIE]


def _mark(process: psutil.Process) -> str:
    try:
        return process.environ().get(MARK, "")
    except psutil.Error:
        return ""


def make_cli(folder: Path) -> Cli:
    """Return a command line whose every trace is in ``folder``."""
    (folder / "tmp").mkdir()
    variables = {
        "WARPSMITH_HOME": str(folder / "home"),
        "WARPSMITH_CACHE": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TMPDIR": str(folder / "tmp"),
        MARK: str(folder),
    }
    return Cli(folder, variables)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return make_cli(tmp_path)


Write = Callable[..., Path]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A KernelBench file."""
    (tmp_path / "scale.py").write_text(TASK)
    return tmp_path / "scale.py"


def kernel(before: str = "", includes: Sequence[str] = ()) -> str:
    """The right kernel, with something before its loop."""
    named = "\n".join(f"#include <{name}>" for name in includes)
    return KERNEL.replace("INCLUDES", named).replace("BEFORE", before)


@pytest.fixture
def candidate(tmp_path: Path) -> Write:
    """Write a candidate for the task and return its folder."""

    def write(kernel_source: str = kernel(), python: str = CANDIDATE) -> Path:
        (tmp_path / "candidate" / "kernels").mkdir(parents=True, exist_ok=True)
        (tmp_path / "candidate" / "model_new.py").write_text(python)
        (tmp_path / "candidate" / "kernels" / "scale_add.cpp").write_text(kernel_source)
        return tmp_path / "candidate"

    return write
