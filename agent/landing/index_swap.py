"""Changing a few entries of the developer's index and nothing else of it, under git's own lock.

The new index is made as a copy beside it. The lock is a second name of that copy, so whoever comes after a crash can
tell our lock from another's, and git itself never sees half an index.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.landing.repository import Entries, GitFailed, Repository

PATIENCE_SECONDS = 3.0
"""How long another git command may hold the index."""


def swap_entries(
    repository: Repository,
    copy_name: str,
    keys: Sequence[bytes],
    old: Entries,
    new: Entries,
    move: Callable[[], None],
) -> None:
    """Let the index hold ``new`` of the files where it holds ``old``, if ``move``, which is called under the lock, succeeds.

    Raises:
        GitFailed: The index holds one of the files otherwise, or is locked by another; or ``move`` raised it.
    """
    index, lock, copy = _places(repository, copy_name)
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while True:
            before = _bytes(index)
            _prepare(repository, index, copy, keys, old, new)
            if _link(copy, lock):
                if _bytes(index) == before:
                    break
                lock.unlink()
            if time.monotonic() > deadline:
                raise GitFailed(f"another git command holds {lock}")
            time.sleep(0.05)
        move()
        lock.replace(index)
    finally:
        take_away_lock(repository, copy_name)


def take_away_lock(repository: Repository, copy_name: str) -> None:
    """Remove what a killed process left of :func:`swap_entries`; another's lock stays."""
    _, lock, copy = _places(repository, copy_name)
    with contextlib.suppress(FileNotFoundError):
        if lock.samefile(copy):
            lock.unlink()
    for leftover in (copy, copy.with_name(f"{copy.name}.lock")):
        leftover.unlink(missing_ok=True)


def _places(repository: Repository, copy_name: str) -> tuple[Path, Path, Path]:
    index = repository.path_of("index")
    return index, index.with_name(f"{index.name}.lock"), repository.git_dir / copy_name


def _prepare(
    repository: Repository, index: Path, copy: Path, keys: Sequence[bytes], old: Entries, new: Entries
) -> None:
    """Make the copy with the entries changed; their times are those of the files, where these hold what was committed."""
    copy.unlink(missing_ok=True)
    if index.exists():
        shutil.copy2(index, copy)
    held = repository.in_index(keys, index=copy)
    for key in keys:
        if held.get(key) != old.get(key):
            raise GitFailed(f"{os.fsdecode(key)} has been staged meanwhile")
    _set(repository, copy, keys, old, new)
    repository.ask("update-index", "--add", "--remove", "-z", "--stdin", stdin=b"\0".join([*keys, b""]), index=copy)
    found = repository.in_index(keys, index=copy)
    edited = [key for key in keys if found.get(key) != new.get(key)]
    if edited:
        _set(repository, copy, edited, old, new)


def _set(repository: Repository, copy: Path, keys: Sequence[bytes], old: Entries, new: Entries) -> None:
    width = max(len(blob) for _, blob in (*old.values(), *new.values()))
    gone = (b"0", b"0" * width)
    lines = [b"%s %s\t%s\0" % (*new.get(key, gone), key) for key in keys]
    repository.ask("update-index", "-z", "--add", "--index-info", stdin=b"".join(lines), index=copy)


def _link(copy: Path, lock: Path) -> bool:
    try:
        lock.hardlink_to(copy)
    except FileExistsError:
        return False
    except OSError as error:
        raise GitFailed(f"the index cannot be locked: {error.strerror}") from error
    return True


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
