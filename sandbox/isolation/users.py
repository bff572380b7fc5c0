"""The users cells run as where root starts them, and giving folders to them."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from sandbox.errors import EnvironmentFault
from sandbox.isolation.cell import Cell

NOBODY = 65534
_FOR_CELLS = range(61184, 65520)
"""The numbers systemd sets aside for users that live as long as one service."""


def new_user() -> int | None:
    """Return a user for one cell, or None where we are no root and the cell runs as ourselves.

    The kernel counts processes by user, so that cells with one user would use up each other's limit.
    """
    return secrets.choice(_FOR_CELLS) if os.geteuid() == 0 else None


def give_writable(cell: Cell, user: int | None) -> None:
    """Make the writable folders of a cell belong to the user it runs as, which only root has to; None is ourselves."""
    for path in cell.writable:
        if not path.exists():
            raise EnvironmentFault("A folder that a cell shall write to does not exist.", where=str(path))
        if os.geteuid() == 0:
            _give(path, user or 0, kept=cell.readable)


def _give(folder: Path, user: int, kept: Iterable[Path]) -> None:
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
    found = path.lstat()
    known = found.st_uid in (0, NOBODY) or found.st_uid in _FOR_CELLS
    # A file with several names may be known by one of them outside the folder.
    if found.st_uid != user and known and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
        os.chown(path, user, user, follow_symlinks=False)
