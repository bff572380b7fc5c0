"""Runs a candidate alone in a cell, under a tool that looks at its process from outside: a profiler or a sanitizer."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox.build import Manifest
from sandbox.isolation import Cell
from sandbox.loading import kernels_name
from sandbox.looking.study import Study
from sandbox.processes import BoundedLog
from sandbox.wire import MAIN

OPTIONS = "options.json"
TOLD = "told.json"
_LONGEST_PROBLEM = 600
_SLICE_SECONDS = 0.1


@dataclass(frozen=True)
class Look:
    """How one run is looked at.

    Attributes:
        tool: The tool's command line, before the candidate's.
        readable: Where the tool is.
        variables: Environment variables beside the usual ones.
        seconds: Time limit.
        warm: Calls before the one that is looked at.
        bracket: Whether a profiler is told when that one begins and ends.
        sparse: Whether the tool maps far more memory than it uses.
    """

    tool: tuple[str, ...]
    seconds: float
    readable: tuple[Path, ...] = ()
    variables: Mapping[str, str] | None = None
    warm: int = 0
    bracket: bool = False
    sparse: bool = False


@dataclass(frozen=True)
class SoloRun:
    """How it went.

    Attributes:
        status: Exit status; negative for a signal.
        log: Beginning and end of what was printed.
        problem: What the candidate raised, with its line, or empty.
        seconds: How long it took.
        timed_out: Whether its time limit ended it.
    """

    status: int
    log: str
    problem: str
    seconds: float
    timed_out: bool


@contextmanager
def solo_folder(study: Study) -> Iterator[Path]:
    """Make a folder that the candidate's cell may write to; whatever lies there is to be read with ``read_left`` only."""
    folder = study.work / "solo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_solo(study: Study, manifest: Manifest | None, look: Look, folder: Path) -> SoloRun:
    """Run the candidate once, on inputs of its own making.

    Args:
        study: The candidate.
        manifest: Its kernels as they were built for this, if it has any.
        look: The tool.
        folder: From ``solo_folder``; the tool may write there.

    Raises:
        EnvironmentFault: The cell cannot be made.
    """
    options = {
        "spec": study.crew.spec.to_json(),
        "folder": str(study.candidate.folder),
        "manifest": None if manifest is None else manifest.to_json(),
        "kernels": kernels_name(study.crew.spec),
        "threads": study.crew.threads,
        "strength": study.crew.accepted["state_strength"],
        "warm": look.warm,
        "bracket": look.bracket,
        "told": str(folder / TOLD),
    }
    with (folder / OPTIONS).open("x") as file:  # never into what an earlier run may have left there
        json.dump(options, file)
    readable = [study.candidate.folder, *look.readable, *([manifest.library] if manifest else [])]
    cell = study.crew.cell(readable, [folder], look.variables or {}, seconds=look.seconds, sparse=look.sparse)
    command = [*look.tool, str(study.crew.spec.python), str(MAIN), "solo", str(folder / OPTIONS)]
    started = time.monotonic()
    status, log = run_in_cell(study, command, cell)
    told = read_left(folder / TOLD, 100_000).decode(errors="replace")
    timed_out = status == -signal.SIGALRM
    return SoloRun(status, log, "" if timed_out else _problem(told), time.monotonic() - started, timed_out)


def run_in_cell(study: Study, command: Sequence[str], cell: Cell, output: int | None = None) -> tuple[int, str]:
    """Run a command to its end; return its status and what it printed, but for stdout where ``output`` takes that."""
    log = BoundedLog()
    try:
        process = study.crew.isolation.popen(
            command,
            cell,
            stdin=subprocess.DEVNULL,
            stdout=log.writer if output is None else output,
            stderr=log.writer,
        )
    finally:
        log.close_writer()
    descriptor = os.pidfd_open(process.pid)
    try:
        while not select.select([descriptor], [], [], _SLICE_SECONDS)[0]:
            study.crew.check()
        return process.wait(), log.text(1.0)
    finally:
        os.close(descriptor)
        study.crew.isolation.kill(process)


def read_left(path: Path, most: int) -> bytes:
    """Return the beginning of a file that a cell left; empty where there is none, or something else than a plain file.

    A link there would lead out of the cell, to what this process may read and the candidate may not.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _problem(told: str) -> str:
    """Return what the candidate said it raised; it may say anything, so it is only words."""
    try:
        found = json.loads(told)
        what, where = str(found["what"]), str(found["where"])
    except (ValueError, KeyError, TypeError):
        return ""
    return (f"{where}: {what}" if where else what)[:_LONGEST_PROBLEM]
