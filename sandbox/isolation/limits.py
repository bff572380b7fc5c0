"""Isolation by resource limits and, where the kernel has it, Landlock: for machines that refuse namespaces."""

from __future__ import annotations

import ctypes
import functools
import stat
from pathlib import Path

from sandbox.isolation.cell import Cell
from sandbox.isolation.local import LocalIsolation
from sandbox.isolation.users import new_user


class ResourceLimits(LocalIsolation):
    """A session, resource limits, Landlock and, as root where the paths allow it, another user; the rest is shared."""

    name = "limits"

    @property
    def description(self) -> str:
        """What is and is not kept from a cell here, which depends on the kernel's Landlock."""
        version = _landlock_version()
        always = "limited memory, processes and time, and everything a cell started is killed with it"
        if version == 0:
            return f"WEAK: {always}; but it can read every file its user can read, and reach the network."
        network = "UDP" if version >= 4 else "the network"
        files = "only files the task needs can be opened"
        return f"WEAK: {always}, and {files}; but it sees other processes, and can reach {network}."

    def _user(self, cell: Cell, /) -> int | None:
        paths = [path for path in (*cell.readable, *cell.writable, cell.cwd) if path.exists()]
        return new_user() if all(map(_open_to_everyone, paths)) else None

    def _home(self) -> dict[str, str]:
        return {}


@functools.cache
def _landlock_version() -> int:
    """Ask the kernel for the version of its Landlock interface; 0 is none."""
    return max(0, int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def _open_to_everyone(path: Path) -> bool:
    """Whether every folder above a path lets every user through."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.absolute().parents)
