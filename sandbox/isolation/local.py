"""What the isolations on this machine share: starting a cell through ``enter.py``, ending it, describing it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault
from sandbox.isolation import wrapped
from sandbox.isolation.cell import DEFAULT_ENV, Cell, CellProcess
from sandbox.isolation.keys import secrets_in

NOBODY = 65534
_ENTER = Path(__file__).with_name("enter.py")


class LocalIsolation:
    """Base of the two isolations that are made of system calls only; they differ in their level."""

    name: str

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start a program in a cell; see ``Isolation.popen``."""
        where = f"isolation {self.name}"
        return wrapped.start(_ENTER, self.worker_cell(cell), argv, where=where, options=["-S"], **pipes)

    def kill(self, process: CellProcess) -> None:
        """Kill a cell with all its descendants and wait until they are gone."""
        wrapped.kill(process)

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell as JSON data, and give its writable folders to the user it will run as."""
        user = self._user(cell)
        give_writable(cell, user)
        return {"level": self.name, "user": user, **as_json(cell, self._home())}

    def _user(self, cell: Cell, /) -> int | None:
        """Return the user id a cell changes to, or None to keep ours."""
        raise NotImplementedError

    def _home(self) -> dict[str, str]:
        raise NotImplementedError


def as_json(cell: Cell, home: Mapping[str, str]) -> dict[str, Any]:
    """Return a cell as JSON data, with defaults in its environment and with keys in its readable folders hidden."""
    return {
        "readable": [str(path.absolute()) for path in cell.readable],
        "writable": [str(path.absolute()) for path in cell.writable],
        "hidden": [str(path.absolute()) for path in (*cell.hidden, *secrets_in(cell.readable))],
        "cwd": str(cell.cwd.absolute()),
        "env": {**DEFAULT_ENV, **home, **cell.env},
        "limits": vars(cell.limits),
        "gpu": cell.gpu,
    }


def give_writable(cell: Cell, user: int | None) -> None:
    """Make the writable folders of a cell belong to the user it runs as, which only root has to; None is ourselves."""
    for path in cell.writable:
        if not path.exists():
            raise EnvironmentFault("A folder that a cell shall write to does not exist.", where=str(path))
        if os.geteuid() == 0:
            give(path, user or 0, kept=cell.readable)


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
