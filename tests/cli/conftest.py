"""The command line as a user runs it: a process, its exit code and what it prints; nothing may be left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.scale_task import Write, reference, write_candidate

COMMAND = [str(Path(sys.executable).parent / "warpsmith")]
"""The installed script: unlike ``python -m``, it looks for nothing in the current folder."""

MARK = "WARPSMITH_TEST_RUN"


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
        return [command for process in self.processes() if (command := command_of(process))]


def command_of(process: psutil.Process) -> str:
    """Return what a process runs, or nothing where it has ended meanwhile."""
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else " ".join(process.cmdline()[:5])
    except psutil.Error:
        return ""


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
        "TORCH_COMPILE_DISABLE": "1",  # a baseline to compile takes twenty seconds of a processor, in every test
        MARK: str(folder),
    }
    return Cli(folder, variables)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return make_cli(tmp_path)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A KernelBench file."""
    (tmp_path / "scale.py").write_text(reference(16, 256))
    return tmp_path / "scale.py"


@pytest.fixture
def candidate(tmp_path: Path) -> Write:
    """Write a candidate for the task and return its folder."""
    return partial(write_candidate, tmp_path / "candidate")
