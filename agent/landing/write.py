"""Writing a landing into the developer's tree, and taking it back; nothing but the files of the changes is touched.

All new contents are first staged beside their targets and flushed to the disk; only then are they renamed into place:
new files first, then changed ones, then removals. So a process killed at any moment leaves whole files of one side or
the other, never code that calls kernels which are not there, and an undo leads back from each of these states.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.exchange import exchange
from sandbox.errors import LandingRefused


def land(changes: Sequence[FileChange]) -> None:
    """Carry out all changes, or none; there may be none.

    Raises:
        LandingRefused: A file is not as its change expects, or something could not be written. What had been written
            was put back.
    """
    for change in changes:
        _expect(change)
    made: list[Path] = []
    done: list[FileChange] = []
    try:
        for change in changes:
            made += _make_folder(change.path.parent)
            _stage(change)
        for change in _ordered(changes):
            _expect(change)
            _swap(change)
            done.append(change)
    except BaseException as error:
        _put_back(done)
        unstage(changes)
        _remove_empty(made)
        if isinstance(error, OSError):
            raise _refusal(error, changes[0].path) from error
        raise
    tidy(change.path for change in changes if change.after is None)


def read(path: Path) -> bytes | None:
    """Return a regular file's bytes, or None if nothing is there.

    Raises:
        LandingRefused: It is a symbolic link, a folder or something else that a landing does not replace.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        what = f"{path.name} is a symbolic link to {path.resolve()}, which a landing does not follow."
        raise LandingRefused(what, where=str(path), next_step="Open the module at the path the link points to.")
    if not stat.S_ISREG(status.st_mode):
        raise LandingRefused(f"{path.name} is not a file.", where=str(path), next_step="Move it away, then try again.")
    return path.read_bytes()


def _ordered(changes: Iterable[FileChange]) -> list[FileChange]:
    """New files, then changed ones, then removals."""
    return sorted(changes, key=lambda change: 0 if change.before is None else 1 if change.after is not None else 2)


def _expect(change: FileChange) -> None:
    if read(change.path) != change.before:
        raise _changed(change.path)
    if change.before is not None and not change.path.stat().st_mode & 0o222:
        what = f"{change.path.name} is write-protected."
        raise LandingRefused(what, where=str(change.path), next_step=f"Allow it to be written: chmod u+w {change.path}")


def _changed(path: Path) -> LandingRefused:
    what = f"{path.name} has changed since the landing was prepared."
    return LandingRefused(what, where=str(path), next_step="Look at the change, then land again.")


def _staged(path: Path) -> Path:
    """Where a file's new content waits: in the same folder, under a name that a later undo can find again."""
    return path.with_name(f".{path.name}.landing")


def _stage(change: FileChange) -> None:
    """Write a change's new content beside its file, with the owner and permission bits it is to have."""
    if change.after is None:
        return
    staged = _staged(change.path)
    staged.unlink(missing_ok=True)
    with staged.open("xb") as file:
        file.write(change.after)
        file.flush()
        if change.before is not None:
            status = change.path.stat()
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            _keep_attributes(change.path, file.fileno())
        if change.mode is not None:
            os.fchmod(file.fileno(), change.mode)
        os.fsync(file.fileno())


def _keep_attributes(path: Path, file: int) -> None:
    """Give a new content the extended attributes of the file it replaces, access lists among them."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            with contextlib.suppress(OSError):
                os.setxattr(file, name, os.getxattr(path, name))


def _swap(change: FileChange) -> None:
    """Put a change's side into place; what somebody else wrote there since it was looked at stays or comes back.

    Raises:
        LandingRefused: Somebody did.
    """
    staged, path = _staged(change.path), change.path
    if change.before is None:
        _appear(staged, path)
    elif change.after is None:
        path.replace(staged)
        _look_again(change, staged, lambda: staged.replace(path))
    elif exchange(staged, path):
        _look_again(change, staged, lambda: exchange(staged, path))
    else:
        staged.replace(path)
    _flush(path.parent)


def _appear(staged: Path, path: Path) -> None:
    """Let a new file appear, whole, where none is."""
    try:
        path.hardlink_to(staged)
    except FileExistsError as error:
        raise _changed(path) from error
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        staged.replace(path)  # a file system without links
    else:
        staged.unlink()


def _look_again(change: FileChange, removed: Path, back: Callable[[], object]) -> None:
    """Put back what was taken out of its place if it is not what was expected there; remove it if it is."""
    if read(removed) != change.before:
        back()
        raise _changed(change.path)
    removed.unlink()


def _put_back(done: Sequence[FileChange]) -> None:
    """Take back what has been swapped, last first; a file that was edited since stays as it is."""
    try:
        for change in reversed(done):
            _stage(change.inverse())
            with contextlib.suppress(LandingRefused):
                _swap(change.inverse())
    except OSError as error:
        what = f"The landing was cut off, and what it had written could not be put back: {error.strerror}."
        where, next_step = str(error.filename or done[0].path), "Mend this, then undo the landing."
        raise LandingRefused(what, where=where, next_step=next_step) from error


def unstage(changes: Iterable[FileChange]) -> None:
    """Remove what a landing that was cut off left beside its files; what is of neither side stays."""
    for change in changes:
        staged = _staged(change.path)
        with contextlib.suppress(OSError, LandingRefused):
            content = read(staged)
            if content is not None and any((side or b"").startswith(content) for side in (change.before, change.after)):
                staged.unlink()


def tidy(gone: Iterable[Path]) -> None:
    """Remove what removed files leave behind: bytecode, and folders that are empty now."""
    paths = list(gone)
    for path in paths:
        _remove_bytecode(path)
    folders = {path.parent for path in paths}
    between = {above for folder in folders for above in folder.parents if folders & set(above.parents)}
    _remove_empty(folders | between)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_bytecode(source: Path) -> None:
    """Remove what Python cached of a source file that is gone."""
    cache = source.parent / "__pycache__"
    for path in cache.glob(f"{source.stem}.*.pyc") if source.suffix == ".py" else ():
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        cache.rmdir()


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the ones that were missing."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _flush(path.parent)
    return missing


def _flush(folder: Path) -> None:
    """Make renames within a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refusal(error: OSError, path: Path) -> LandingRefused:
    advice = {
        errno.ENOSPC: "Free some space, then land again.",
        errno.EDQUOT: "Free some of your quota, then land again.",
        errno.EACCES: "Make the folder writable, then land again.",
        errno.EPERM: "Make the folder writable, then land again.",
        errno.EROFS: "Make the file system writable, then land again.",
    }
    return LandingRefused(
        f"The landing could not be written: {error.strerror}. Everything is as it was.",
        where=str(error.filename or path.parent),
        next_step=advice.get(error.errno or 0, "Mend this, then land again."),
    )
