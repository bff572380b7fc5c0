"""Runs ninja, and with it the compilers, in a cell.

Compiling is as untrusted as running: an ``#include`` or an ``.incbin`` reads files, a template eats memory.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox.build.target import Target
from sandbox.build.toolchain import find_ninja
from sandbox.isolation import Cell, CellProcess, Isolation, Limits
from sandbox.processes import family, wake

LARGEST_FILE = 64 * 1024**2
_MOST_DISK = 4 * 1024**3
"""Bytes that a compiler may write into one file, its messages included."""

_AGE = 10**9
_LOG = "ninja.log"
_MOST_MEMORY = 8 * 1024**3
_READ = 1024**2


@dataclass(frozen=True)
class Ninja:
    """How ninja is run.

    Attributes:
        isolation: What it runs in.
        jobs: How many compilers may run at once.
        seconds: Time limit.
        cancel: Set to stop.
    """

    isolation: Isolation
    jobs: int
    seconds: float
    cancel: threading.Event | None = None

    def run(self, folder: Path, goals: list[str], target: Target) -> int:
        """Make the goals of ``build.ninja`` in a folder, as far as that goes; returns the exit status.

        Raises:
            InterruptedError: ``cancel`` was set; everything started is gone.
        """
        with (folder / _LOG).open("wb") as log:
            process = self.isolation.popen(
                [str(find_ninja()), "-k", "0", "-j", str(self.jobs), *goals],
                _cell(target, folder, self.seconds),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait(process)
        return process.returncode

    def _wait(self, process: CellProcess) -> None:
        """Wait for a process without polling it, looking ten times a second at ``cancel`` and for who was stopped."""
        descriptor = os.pidfd_open(process.pid)
        try:
            while not select.select([descriptor], [], [], 0.1)[0]:
                for top in filter(None, (process.pid, process.inside)):
                    for member in (top, *family(top)):
                        wake(member)
                if self.cancel is not None and self.cancel.is_set():
                    raise InterruptedError("compiling was interrupted")
            process.wait()
        finally:
            os.close(descriptor)
            self.isolation.kill(process)


def ran_out_of_time(status: int) -> bool:
    """Whether an exit status is that of a run which the time limit ended."""
    return status == -signal.SIGALRM


def was_killed(status: int) -> bool:
    """Whether an exit status is that of a run which somebody killed, or its limit of memory or of disk."""
    return status in (-signal.SIGKILL, -signal.SIGXFSZ)


def last_words(folder: Path) -> str:
    """Return the end of what ninja itself printed."""
    return read_text(folder / _LOG).strip()[-500:]


def edge(rule: str, inputs: str, output: str, command: str) -> str:
    """Return a build edge of a rule that runs ``$run``."""
    return f"build {output}: {rule} {inputs}\n  run = {command.replace('$', '$$')}\n"


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their paths below a folder, all of the same age: line tables hold the age of sources."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        os.utime(folder / name, (_AGE, _AGE))


def read_text(path: Path) -> str:
    """Return the beginning of a text, however long it is; an empty text if it is not there."""
    try:
        with path.open("rb") as file:
            return file.read(_READ).decode(errors="replace")
    except FileNotFoundError:
        return ""


def read_whole(path: Path) -> bytes | None:
    """Return a file's content, or null if it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def is_cut(path: Path) -> bool:
    """Whether a log is as long as a file may become."""
    return path.is_file() and path.stat().st_size >= LARGEST_FILE - _READ // 2


def _cell(target: Target, folder: Path, seconds: float) -> Cell:
    tools = (Path(target.compiler[0]).parent, Path(target.linker).parent)
    path = ":".join([*dict.fromkeys(map(str, tools)), "/usr/local/bin", "/usr/bin", "/bin"])
    memory = min(_MOST_MEMORY, psutil.virtual_memory().total * 3 // 4)
    return Cell(
        readable=(find_ninja(), *target.readable),
        writable=(folder,),
        cwd=folder,
        env={"PATH": path, "LC_ALL": "C"},
        limits=Limits(seconds, memory, processes=256, file_bytes=LARGEST_FILE, disk_bytes=_MOST_DISK, open_files=1024),
    )
