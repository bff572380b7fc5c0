"""Isolation by resource limits and, where the kernel has them, Landlock and seccomp: for machines that refuse namespaces."""

from __future__ import annotations

import ctypes
import functools
import platform
import stat
from pathlib import Path

from sandbox.isolation.cell import Cell
from sandbox.isolation.local import LocalIsolation
from sandbox.isolation.users import new_user


class ResourceLimits(LocalIsolation):
    """A session, limits, Landlock, seccomp and, as root where the paths allow it, another user; the rest is shared."""

    name = "limits"

    @property
    def description(self) -> str:
        """What is and is not kept from a cell here, which depends on the kernel's Landlock and seccomp."""
        version, filtered = _landlock_version(), _takes_filters()
        kept = ["dangerous system calls and the network"] if filtered else ["TCP"] if version >= 4 else []
        kept += ["other files' contents"] if version else []
        left = ["names and permissions of files, other processes' names" if version else "every file of this user"]
        left += ["services of this machine to GPU cells"] if filtered else ["UDP" if version >= 4 else "the network"]
        left += ["signals to this user's processes"] if version < 6 else []
        bounded = "bounds memory, processes, files and time"
        return f"WEAK: {bounded}{', keeps away ' if kept else ''}{', '.join(kept)}; leaves open {', '.join(left)}."

    def _user(self, cell: Cell, /) -> int | None:
        paths = [path for path in (*cell.readable, *cell.writable, cell.cwd) if path.exists()]
        return new_user() if all(map(_open_to_everyone, paths)) else None

    def _home(self) -> dict[str, str]:
        return {}


@functools.cache
def _landlock_version() -> int:
    """Ask the kernel for the version of its Landlock interface; 0 is none."""
    return max(0, int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


@functools.cache
def _takes_filters() -> bool:
    """Whether seccomp is there, and a filter for this processor (``warpsmith_harness.seccomp``)."""
    return platform.machine() in ("x86_64", "aarch64") and Path("/proc/sys/kernel/seccomp/actions_avail").exists()


def _open_to_everyone(path: Path) -> bool:
    """Whether every folder above a path lets every user through."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.absolute().parents)
