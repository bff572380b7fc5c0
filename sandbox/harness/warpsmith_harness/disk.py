"""How much a cell has written: a limit on the size of one file says nothing about a thousand of them."""

# Paths are strings here, so that looking at many files stays quick.
# ruff: noqa: PTH116, PTH208

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Sequence

from warpsmith_harness.processes import descendants

_BLOCK = 512
_SHARE = 0.01
"""Of a processor's time, at most, goes into looking."""


class DiskWatch:
    """Looks now and then whether folders have grown by more than a cell may write.

    Args:
        folders: Where it may write; what they hold now is not counted.
        most: Bytes, or None for no limit.
    """

    def __init__(self, folders: Sequence[str], most: int | None) -> None:
        self._folders = folders
        self._most = most
        self._next = 0.0
        self._start = 0
        if self.needed:
            self._devices = {os.stat(folder).st_dev for folder in folders}
            self._start = self._used()

    @property
    def needed(self) -> bool:
        """Whether there is anything to look at."""
        return self._most is not None and bool(self._folders)

    def exceeded(self) -> bool:
        """Return whether more was written than allowed; costs nothing when the last look was a moment ago."""
        if self._most is None or not self._folders or time.monotonic() < self._next:
            return False
        return self._used() - self._start > self._most

    def _used(self) -> int:
        began = time.thread_time()
        used = sum(map(_bytes_below, self._folders)) + self._unlinked()
        self._next = time.monotonic() + (time.thread_time() - began) / _SHARE
        return used

    def _unlinked(self) -> int:
        """Return the bytes of files that have no name any more and are held open by a descendant of this process."""
        found: dict[tuple[int, int], int] = {}
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        entry = os.stat(f"/proc/{pid}/fd/{name}")
                        if stat.S_ISREG(entry.st_mode) and not entry.st_nlink and entry.st_dev in self._devices:
                            found[entry.st_dev, entry.st_ino] = entry.st_blocks * _BLOCK
        return sum(found.values())


def _bytes_below(folder: str) -> int:
    """Return what a folder holds on the disk; what vanishes meanwhile, or cannot be entered, does not count."""
    total = 0
    ahead = [folder]
    while ahead:
        with contextlib.suppress(OSError), os.scandir(ahead.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
    return total
