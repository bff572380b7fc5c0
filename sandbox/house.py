"""The cell that workers are forked in, where the isolation has one for the process that forks them.

A forked process cannot move into a container, so the zygote is started in one and its workers with it. What the judge and it
say to each other goes over a socket in a folder that both see. It takes one connection and is gone before a candidate is there.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from sandbox.errors import EnvironmentFault
from sandbox.isolation import Cell, CellProcess, Isolation, Limits
from sandbox.judge_limits import JudgeLimits
from sandbox.processes import BoundedLog, HarnessProcess
from sandbox.task import TaskSpec
from sandbox.wire import MAIN, Channel

_WORKERS = 8
"""How many there are at once, at most: those of a verdict's placements, and some that have not quite ended."""
_SHARE_OF_MEMORY = 0.9
_OWN = ["/tmp", "/dev/shm"]  # noqa: S108  (the cell's own)
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_CREDENTIALS = struct.Struct("3i")


def written(work: Path) -> Path:
    """Return the folder below a judge's for what workers may write; the rest of it they read."""
    return work / "written"


@dataclass(frozen=True)
class House:
    """A cell for the zygote.

    Attributes:
        isolation: What starts it.
        cell: What is seen in it: the task, the interpreter, and the judge's folder with all that a candidate brings.
        shown: The folder for what lies elsewhere and has to be seen.
    """

    isolation: Isolation
    cell: Cell
    shown: Path

    def show(self, file: Path) -> Path:
        """Return where workers see a file of the candidate's; what was shown before is gone."""
        shutil.rmtree(self.shown, ignore_errors=True)
        self.shown.mkdir()
        self.shown.chmod(0o755)
        place = self.shown / file.name
        shutil.copyfile(file, place)
        place.chmod(0o755)
        return place

    def start(
        self, role: str, python: Path, options: Mapping[str, Any], environment: Mapping[str, str]
    ) -> HarnessProcess:
        """Start a process of the harness in the cell; it sees no file of the developer's but the task's.

        Raises:
            EnvironmentFault: The cell cannot be made, or the process does not come up in it.
        """
        with _door() as (listener, door):
            log = BoundedLog()
            arguments = [str(python), str(MAIN), role, json.dumps({**options, "door": str(door), "own": _OWN})]
            env = {**environment, "HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108  (the cell's own)
            cell = replace(self.cell, env=env, writable=(*self.cell.writable, door.parent))
            try:
                process = self.isolation.popen(
                    arguments, cell, stdin=subprocess.DEVNULL, stdout=log.writer, stderr=log.writer
                )
            finally:
                log.close_writer()
            try:
                channel, pid = _await_caller(listener, process)
            except TimeoutError as error:
                self.isolation.kill(process)
                said = f"{error}. {log.text(1.0)[-2000:]}".strip()
                raise EnvironmentFault(
                    f"The process that workers are forked from does not come up in its cell: {said}",
                    where=f"isolation {self.isolation.name}",
                    next_step="Let the engine run on this machine itself, whose folders it has to see, or leave --isolation out.",
                ) from error
        return HarnessProcess(role, process, Channel(channel), log, pid)


def house_of(
    isolation: Isolation, spec: TaskSpec, work: Path, readable: Sequence[Path], limits: JudgeLimits
) -> House | None:
    """Return the cell of a task's zygote, or None where the isolation leaves it outside.

    Args:
        isolation: How workers are isolated.
        spec: The task.
        work: The judge's folder; what a candidate brings lies below it, and nobody else's.
        readable: What every worker may read.
        limits: Of a worker; the cell holds several.
    """
    if not isolation.holds_zygote:
        return None
    written(work).mkdir(exist_ok=True)
    bounds = Limits(
        memory_bytes=int(_SHARE_OF_MEMORY * psutil.virtual_memory().total),
        processes=_WORKERS * limits.tasks,
        file_bytes=limits.file_bytes,
    )
    cell = Cell((*readable, work), (written(work),), Path("/"), limits=bounds, gpu=spec.device != "cpu")
    return House(isolation, cell, work / "shown")


@contextlib.contextmanager
def _door() -> Iterator[tuple[socket.socket, Path]]:
    """Listen at a path of a folder of its own, which nobody but the cell's user and we can enter."""
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-door-"))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            door = folder / "s"
            try:
                listener.bind(str(door))
            except OSError as error:
                raise EnvironmentFault(
                    f"A socket cannot be made: {error}.",
                    where=str(door),
                    next_step="Set TMPDIR to a folder with a short name.",
                ) from error
            listener.listen(1)
            yield listener, door
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await_caller(listener: socket.socket, process: CellProcess) -> tuple[socket.socket, int]:
    """Return the connection of the process that was started, and its process id as it is here.

    Raises:
        TimeoutError: It ended, or did not call in time.
    """
    deadline = time.monotonic() + _START_SECONDS
    listener.settimeout(_LOOK_SECONDS)
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            channel, _ = listener.accept()
            channel.setblocking(True)
            told = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            return channel, int(_CREDENTIALS.unpack(told)[0])
        if process.poll() is not None:
            raise TimeoutError(f"it ended with status {process.returncode}")
    raise TimeoutError(f"it did not call within {_START_SECONDS:.0f} s")
