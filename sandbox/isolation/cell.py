"""What a process may see and use, and the protocol of everything that can run one so."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

DEFAULT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
    "USER": "warpsmith",
    "LOGNAME": "warpsmith",
}


@dataclass(frozen=True)
class Limits:
    """What a cell may use; None is no limit.

    Attributes:
        seconds: Wall time until all of it is killed; the process then ends by ``SIGALRM``.
        memory_bytes: Memory of the cell where a control group can be had, of each of its processes otherwise.
        processes: Processes and threads.
        file_bytes: The largest file that can be written.
        disk_bytes: What its writable folders may grow by together; looked at a few times a second, and over it all of it is
            killed and ends by ``SIGXFSZ``.
        open_files: Descriptors of one process.
        sparse: Whether it maps far more memory than it uses, as a sanitizer does; then only what it uses is bounded.
    """

    seconds: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    disk_bytes: int | None = None
    open_files: int | None = None
    sparse: bool = False


@dataclass(frozen=True)
class Cell:
    """What an isolated process sees: these paths, the system's programs and libraries, a private ``/tmp``, no network.

    Attributes:
        readable: Folders and files it may read, under the names they have outside; missing ones are left out.
        writable: Folders it may also write. As root they are given to the unprivileged user the cell runs as.
        cwd: Where it starts.
        env: Its whole environment, but for defaults of ``PATH``, ``HOME``, ``TMPDIR``, ``LANG`` and ``USER``.
        gpu: Whether it may use the NVIDIA devices.
        hidden: Files and folders inside the readable ones that it must not see.
    """

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    gpu: bool = False
    hidden: tuple[Path, ...] = ()


class CellProcess(subprocess.Popen[bytes]):
    """A running cell. It ends when this object, or the process holding it, is gone.

    Attributes:
        lifeline: Ends the cell when it is closed.
        told: What came over it once the cell was ready.
    """

    lifeline: socket.socket
    told: bytes = b""

    @property
    def inside(self) -> int:
        """Process id of what runs the program elsewhere, in a container; 0 as long as nothing of that kind is known."""
        with contextlib.suppress(OSError):
            while piece := self.lifeline.recv(4096):
                self.told += piece
        line, ended, _ = self.told.partition(b"\n")
        return int(line) if ended else 0

    def __del__(self) -> None:
        """Let the cell end with this object."""
        if hasattr(self, "lifeline"):
            self.lifeline.close()
        super().__del__()


class Isolation(Protocol):
    """A way of running code that nobody trusts."""

    @property
    def name(self) -> str:
        """``docker``, ``namespaces``, ``bubblewrap`` or ``limits``."""

    @property
    def workers(self) -> str:
        """The name of what workers are in, which are forked and cannot be put everywhere."""

    @property
    def holds_zygote(self) -> bool:
        """Whether workers are forked inside a cell, which has to be made for the process that forks them."""

    @property
    def description(self) -> str:
        """What it keeps away from a cell, and what it leaves open, in a sentence or two for people."""

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start ``argv`` in a cell; returns once it is isolated. ``pipes`` are stdin, stdout and stderr of ``Popen``.

        The process ends with the exit status or the signal of ``argv``: 127 if it cannot be found, ``-SIGALRM`` at the
        cell's time limit. When it ends, so has everything it started.

        Raises:
            EnvironmentFault: The cell cannot be made; the message says which step was refused.
        """

    def kill(self, process: CellProcess) -> None:
        """Kill a cell with all its descendants and wait until they are gone."""

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell as JSON data for ``warpsmith_harness.isolate.enter``, which a forked worker calls itself."""
