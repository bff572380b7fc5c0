"""Isolation by resource limits only, for machines that refuse namespaces."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sandbox.isolation.cell import Cell
from sandbox.isolation.local import NOBODY, LocalIsolation


class ResourceLimits(LocalIsolation):
    """A session, resource limits and, as root where the paths allow it, another user; everything else is shared."""

    name = "limits"
    description = (
        "WEAK: limited memory, processes and time, and everything a cell started is killed with it; but it can read every file "
        "its user can read, and it can reach the network."
    )

    def _user(self, cell: Cell, /) -> int | None:
        if os.geteuid() != 0:
            return None
        paths = [path for path in (*cell.readable, *cell.writable, cell.cwd) if path.exists()]
        return NOBODY if all(map(_open_to_everyone, paths)) else None

    def _home(self) -> dict[str, str]:
        return {}


def _open_to_everyone(path: Path) -> bool:
    """Whether every folder above a path lets every user through."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.absolute().parents)
