"""Looking at processes through ``/proc``, without packages."""

# Paths are strings here, so that looking at every process stays quick.
# ruff: noqa: PTH116, PTH123, PTH208

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


def kill_descendants() -> None:
    """Kill and reap every descendant of this process, which has adopted its orphans, until none is left."""
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def memory_of_descendants() -> int:
    """Return the bytes that every descendant of this process holds for itself: anonymous and shared memory, not files."""
    total = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    total += int(line.split()[1]) * 1024
    return total


def ancestors() -> list[int]:
    """Return the ids of the processes above this one, nearest first, and of the groups they are in."""
    found: list[int] = []
    pid = os.getppid()
    while pid:
        with open(f"/proc/{pid}/stat", "rb") as file:
            _, parent, group = file.read().rpartition(b")")[2].split()[:3]
        found += [pid, *([int(group)] if int(group) not in (0, pid) else [])]
        pid = int(parent)
    return list(dict.fromkeys(found))


def count_tasks(user: int) -> int:
    """Return how many threads run under a user id, as far as ``/proc`` shows them."""
    total = 0
    for pid in _processes():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == user:
                total += len(os.listdir(f"/proc/{pid}/task"))
    return total


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def descendants(root: int) -> list[int]:
    """Return every process below ``root``, nearest first."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name, in parentheses, may itself hold spaces and parentheses.
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
    found = list(children.get(root, []))
    for pid in found:
        found += children.get(pid, [])
    return found
