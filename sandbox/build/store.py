"""A content-addressed cache on disk: folders of files under a hash, written whole or not at all.

Several processes may use one store at once. Entries are never changed; the longest unused ones go when it grows too large.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

LARGEST = 4 * 1024**3
"""Bytes a store may hold before old entries go."""

_KEPT_SECONDS = 24 * 3600.0


class Store:
    """A folder of entries, each a folder of files under its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> Path | None:
        """Return an entry's folder, or null; finding it counts as using it."""
        entry = self.folder / key
        try:
            os.utime(entry)
        except OSError:
            return None
        return entry

    def put(self, key: str, files: Mapping[str, bytes]) -> Path:
        """Store an entry and return its folder; the first writer of a key wins."""
        entry = self.folder / key
        staged = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            for name, data in files.items():
                (staged / name).write_bytes(data)
            staged.chmod(0o755)
            with contextlib.suppress(OSError):
                staged.rename(entry)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        if not entry.is_dir():
            raise OSError(f"{entry} could not be written")
        return entry

    def discard(self, key: str) -> None:
        """Remove an entry that cannot be read."""
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def prune(self, largest: int = LARGEST) -> None:
        """Remove the longest unused entries while the store is larger than ``largest`` bytes, but none of the last day."""
        sizes = {entry: _size(entry) for entry in self.folder.iterdir()}
        used = {entry: _used(entry) for entry in sizes}
        total = sum(sizes.values())
        for entry in sorted(sizes, key=used.__getitem__):
            if total <= largest or used[entry] > time.time() - _KEPT_SECONDS:
                return
            shutil.rmtree(entry, ignore_errors=True)
            total -= sizes[entry]


def _size(entry: Path) -> int:
    total = 0
    for file in entry.glob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def _used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return time.time()
