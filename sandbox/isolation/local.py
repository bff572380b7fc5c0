"""What the isolations on this machine share: starting a cell through ``enter.py``, ending it, describing it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault
from sandbox.isolation.cell import DEFAULT_ENV, Cell, CellProcess
from sandbox.isolation.keys import secrets_in

NOBODY = 65534
_ENTER = Path(__file__).with_name("enter.py")
_START_SECONDS = 30.0
_KILL_SECONDS = 30.0


class LocalIsolation:
    """Base of the two isolations that are made of system calls only; they differ in their level."""

    name: str

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start a program in a cell; see ``Isolation.popen``."""
        if not argv:
            raise ValueError("there is no program to run")
        description = os.memfd_create("cell")
        ours, theirs = socket.socketpair()
        try:
            os.write(description, json.dumps(self.worker_cell(cell)).encode())
            os.lseek(description, 0, os.SEEK_SET)
            wrapper = [sys.executable, "-I", "-S", str(_ENTER), str(description), str(theirs.fileno())]
            process = CellProcess(
                [*wrapper, *argv], pass_fds=(description, theirs.fileno()), start_new_session=True, env={}, **pipes
            )
        finally:
            os.close(description)
            theirs.close()
        process.lifeline = ours
        self._await_entry(process)
        return process

    def kill(self, process: CellProcess) -> None:
        """Kill a cell with all its descendants and wait until they are gone."""
        process.lifeline.close()
        try:
            process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell as JSON data, and give its writable folders to the user it will run as."""
        user = self._user(cell)
        for path in cell.writable:
            if not path.exists():
                raise EnvironmentFault("A folder that a cell shall write to does not exist.", where=str(path))
            if os.geteuid() == 0:
                give(path, user or 0, kept=cell.readable)
        return {
            "level": self.name,
            "readable": [str(path.absolute()) for path in cell.readable],
            "writable": [str(path.absolute()) for path in cell.writable],
            "hidden": [str(path.absolute()) for path in (*cell.hidden, *secrets_in(cell.readable))],
            "cwd": str(cell.cwd.absolute()),
            "env": {**DEFAULT_ENV, **self._home(), **cell.env},
            "limits": vars(cell.limits),
            "gpu": cell.gpu,
            "user": user,
        }

    def _user(self, cell: Cell, /) -> int | None:
        """Return the user id a cell changes to, or None to keep ours."""
        raise NotImplementedError

    def _home(self) -> dict[str, str]:
        raise NotImplementedError

    def _await_entry(self, process: CellProcess) -> None:
        process.lifeline.settimeout(_START_SECONDS)
        said = b""
        with contextlib.suppress(OSError):
            while not said.endswith(b"\n") and (piece := process.lifeline.recv(4096)):
                said += piece
        if said == b"ready\n":
            process.lifeline.setblocking(False)
            return
        self.kill(process)
        reason = said.decode(errors="replace").removeprefix("refused ").strip()
        raise EnvironmentFault(
            f"A process could not be isolated: {reason or 'its wrapper ended early'}.",
            where=f"isolation {self.name}",
            next_step="Run `warpsmith doctor`.",
        )


def give(folder: Path, user: int, kept: Iterable[Path] = ()) -> None:
    """Make ``user`` the owner of a folder and all below it that is ours or a cell's, except ``kept``; follows no link."""
    left_out = {path.absolute() for path in kept}
    _give_one(folder, user)
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if here / name not in left_out]
        for name in (*folders, *files):
            if here / name not in left_out:
                _give_one(here / name, user)


def _give_one(path: Path, user: int) -> None:
    # A file with several names may be known by one of them outside the folder.
    found = path.lstat()
    if found.st_uid != user and found.st_uid in (0, NOBODY) and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
        os.chown(path, user, user, follow_symlinks=False)
