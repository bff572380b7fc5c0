"""Temporary folders that do not outlive their owner, not even one that is killed: the next owner removes what it left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder for as long as the context lasts, and remove those of owners that were killed.

    The folder itself is what is locked: its lock goes with its owner, however that ends. It lies in ``parent``, or where
    temporary files go.
    """
    where = parent or Path(tempfile.gettempdir())
    _sweep(where, prefix)
    folder, lock = _make(where, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(where: Path, prefix: str) -> tuple[Path, int]:
    """Make and lock a folder; one that somebody sweeps away before it is locked is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # where a file system has no locks, nobody else can take one either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _sweep(where: Path, prefix: str) -> None:
    for folder in where.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # somebody else's, in use, or gone meanwhile
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
