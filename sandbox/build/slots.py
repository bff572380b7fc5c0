"""How much is compiled at once on a machine: slots for compilers, and one build at a time of the same state.

Both are locks on files, which the kernel frees when their holder ends, however that ends: a lock is never stale.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

MEMORY_EACH = 1536 * 1024**2
"""Bytes that one compiler may need: nvcc on a file with CUB takes 0.6 GiB, on one with CUTLASS twice that."""

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_POLL_SECONDS = 0.03
_STRIPE = 2


@contextlib.contextmanager
def one_build(folder: Path, key: str, *, waiting: Callable[[], None], cancel: threading.Event | None) -> Iterator[None]:
    """Hold the right to build a state: whoever else wants to build it waits, and then finds it built.

    Args:
        folder: Where lock files are; few are made, so that states may share one.
        key: The state.
        waiting: Called once if somebody else builds it.
        cancel: Set to stop waiting.

    Raises:
        InterruptedError: ``cancel`` was set.
    """
    with contextlib.ExitStack() as held:
        _wait(lambda: _take(folder / key[:_STRIPE], held), waiting, cancel)
        yield


@contextlib.contextmanager
def compile_slots(
    folder: Path, wanted: int, *, waiting: Callable[[], None], cancel: threading.Event | None
) -> Iterator[int]:
    """Hold slots for so many compilers, or for as many as there are now; yields how many.

    There are as many slots as processors and as memory holds, for all builds together. A build starts with one or more,
    and waits while there is none. ``MAX_JOBS`` bounds what one build takes.

    Args:
        folder: Where the slots are.
        wanted: How many compilers the build could run at once.
        waiting: Called once if there is none.
        cancel: Set to stop waiting.

    Raises:
        InterruptedError: ``cancel`` was set.
    """
    with contextlib.ExitStack() as held:
        taken = _wait(lambda: _take_slots(folder, min(wanted, _most_jobs()), held), waiting, cancel)
        yield taken


def slot_count() -> int:
    """Return how many compilers may run at once on this machine."""
    return max(1, min(len(os.sched_getaffinity(0)), _memory("total") // MEMORY_EACH))


def _memory(kind: str) -> int:
    """Return the bytes of memory in ``total`` or ``available``: the machine's, or less where a control group has less."""
    least = int(getattr(psutil.virtual_memory(), kind))
    for group in _control_groups():
        with contextlib.suppress(OSError, ValueError):  # the root has no limit, and "max" is none
            limit = int((group / "memory.max").read_text())
            least = min(least, limit if kind == "total" else limit - _in_use(group))
    return max(0, least)


def _control_groups() -> list[Path]:
    """Return this process's control groups of version 2, from its own to the root."""
    try:
        own = next(line[3:] for line in _MEMBERSHIP.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    group = _GROUPS / own.strip("/")
    return [group, *(parent for parent in group.parents if parent.is_relative_to(_GROUPS))]


def _in_use(group: Path) -> int:
    """Return the memory of a group that cannot simply be taken back: without the files that it has read."""
    told = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int((group / "memory.current").read_text()) - int(told.get("inactive_file", 0))


def _most_jobs() -> int:
    told = os.environ.get("MAX_JOBS", "")
    return int(told) if told.isdecimal() and int(told) > 0 else slot_count()


def _take_slots(folder: Path, wanted: int, held: contextlib.ExitStack) -> int:
    """Take free slots while memory holds their compilers; without memory for one, only a build that is alone goes on."""
    room = _memory("available") // MEMORY_EACH
    enough = max(1, min(wanted, room)) if room else slot_count()
    taken = 0
    with contextlib.ExitStack() as now:
        for number in range(slot_count()):
            if taken < enough and _take(folder / str(number), now):
                taken += 1
        if room or taken == enough:
            held.push(now.pop_all())
            return taken if room else 1
    return 0


def _take(path: Path, held: contextlib.ExitStack) -> bool:
    """Lock a file for as long as ``held`` lasts, unless somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    except OSError:  # some network file systems have no locks: a state may be built twice there, and is written whole
        pass
    held.callback(os.close, descriptor)
    return True


def _wait(attempt: Callable[[], int], waiting: Callable[[], None], cancel: threading.Event | None) -> int:
    """Return what an attempt yields once it yields something."""
    told = False
    while not (found := attempt()):
        if not told:
            waiting()
            told = True
        if cancel is not None and cancel.is_set():
            raise InterruptedError("compiling was interrupted")
        time.sleep(_POLL_SECONDS)
    return found
