"""A control group around a cell, where the kernel and the rights of this user allow one: memory and tasks of all of it together.

Both layouts are served: version 2 (one tree) and version 1 (a tree for each controller). Groups are named after the stand-in,
so that those a killed one left behind are found and removed by the next.
"""

# Paths are strings here, as in the rest of the isolation.
# ruff: noqa: PTH102, PTH106, PTH110, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from typing import Any

_PREFIX = "warpsmith-"
_REMOVAL_SECONDS = 2.0


class ControlGroup:
    """The groups made for one cell: one in version 2, up to two in version 1, none where they are refused.

    Attributes:
        bounds: What they bound: ``memory``, ``processes``, both or nothing.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._folders: list[str] = []
        self.bounds: set[str] = set()
        memory, tasks = limits.get("memory_bytes"), limits.get("processes")
        for controllers, parent in _parents() if memory or tasks else ():
            files = _files(controllers, memory, tasks)
            if files and (folder := _make(parent, files)):
                self._folders.append(folder)
                self.bounds |= {"processes" if name.startswith("pids.") else "memory" for name in files}
                if not controllers:
                    break

    def add(self, pid: int) -> None:
        """Put a process, and all it will start, into the groups."""
        for folder in self._folders:
            try:
                _write(f"{folder}/cgroup.procs", pid)
            except OSError:
                self.bounds.clear()

    def remove(self) -> None:
        """Remove the groups once their processes are gone."""
        deadline = time.monotonic() + _REMOVAL_SECONDS
        for folder in self._folders:
            while not _removed(folder) and time.monotonic() < deadline:
                time.sleep(0.005)


def sweep() -> None:
    """Remove the groups of stand-ins that were killed: nobody else would, if no cell follows."""
    for _, parent in _parents():
        with contextlib.suppress(OSError):
            _sweep(parent)


def _files(controllers: str, memory: int | None, tasks: int | None) -> dict[str, int]:
    """Return what to write into which file; an empty ``controllers`` means version 2, and a name with ``?`` may be missing."""
    wanted: dict[str, int] = {}
    if memory and not controllers:
        wanted.update({"memory.max": memory, "memory.swap.max?": 0, "memory.oom.group?": 1})
    if memory and "memory" in controllers.split(","):
        wanted.update({"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes?": memory})
    if tasks and (not controllers or "pids" in controllers.split(",")):
        wanted["pids.max"] = tasks
    return wanted


def _parents() -> list[tuple[str, str]]:
    """Return the folders in which groups may be made, with their controllers (version 1) or an empty text (version 2)."""
    found: list[tuple[str, str]] = []
    if not os.path.exists("/proc/self/cgroup"):
        return found
    mounts = _mounts()
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers not in mounts or not (controllers == "" or {"memory", "pids"} & set(controllers.split(","))):
                continue
            root, place = mounts[controllers]
            own = os.path.join(place, os.path.relpath(path, root))
            # In version 2 a group with processes cannot hold limited groups: they go beside it, not below.
            inside = place.rstrip("/") + "/"
            beside = os.path.dirname(os.path.normpath(own))
            found += [(controllers, os.path.normpath(own))]
            found += [(controllers, beside)] if controllers == "" and (beside + "/").startswith(inside) else []
    return found


def _mounts() -> dict[str, tuple[str, str]]:
    """Return root and mount point of each hierarchy, by its controllers as ``/proc/self/cgroup`` writes them."""
    found = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            root, place = before.split()[3:5]
            kind, _, options = after.split()[:3]
            if kind == "cgroup2":
                found[""] = (root, place)
            elif kind == "cgroup":
                names = [
                    each for each in options.split(",") if re.fullmatch(r"[a-z_]+", each) and each not in ("rw", "ro")
                ]
                found[",".join(names)] = (root, place)
    return found


def _make(parent: str, files: dict[str, int]) -> str:
    """Make a group with its limits, and sweep dead ones away; an empty text where that is refused."""
    folder = f"{parent}/{_PREFIX}{os.getpid()}"
    try:
        _sweep(parent)
        os.mkdir(folder)
        for name, value in files.items():
            with contextlib.suppress(*([OSError] if name.endswith("?") else [])):
                _write(f"{folder}/{name.rstrip('?')}", value)
    except OSError:
        _removed(folder)
        return ""
    return folder


def _sweep(parent: str) -> None:
    for name in os.listdir(parent):
        number = name[len(_PREFIX) :]
        if name.startswith(_PREFIX) and number.isdigit() and not os.path.exists(f"/proc/{number}"):
            _removed(f"{parent}/{name}")


def _removed(folder: str) -> bool:
    """Try to remove a group; whether it is gone."""
    try:
        os.rmdir(folder)
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _write(path: str, value: int) -> None:
    with open(path, "w") as file:
        file.write(str(value))
