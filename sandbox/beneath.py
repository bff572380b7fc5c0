"""Files below a folder that somebody hostile writes to at the same time.

Every step of a path is opened relative to the one before, without following a symbolic link, so that nothing outside the
folder is ever read or written, whatever is renamed meanwhile. A new file belongs to whoever owns its folder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_file(root: Path, path: str, limit: int | None = None) -> bytes:
    """Return a file's content, at most ``limit`` bytes of it.

    Raises:
        OSError: It is missing, no regular file (``IsADirectoryError`` or ``OSError``), or reached through a symbolic link.
    """
    with _parent(root, path) as (folder, name):
        descriptor = os.open(name, _FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(f"{path} is a folder")
            if not stat.S_ISREG(mode):
                raise OSError(f"{path} is not a regular file")
            return file.read(-1 if limit is None else limit)


def write_file(root: Path, path: str, content: bytes, mode: int | None = None) -> None:
    """Replace a file at once, so that a reader sees the old content or the new; missing folders are made.

    Args:
        root: The folder.
        path: Below it, with ``/`` between its parts.
        content: What to write.
        mode: Permissions; None keeps those of the file that is replaced, or 0644 for a new one.
    """
    with _parent(root, path, create=True) as (folder, name):
        if mode is None:
            mode = _permissions(folder, name)
        passing = f".{name[:200]}.{secrets.token_hex(4)}"
        descriptor = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                _belong(descriptor, folder)
                os.fchmod(descriptor, mode)
            os.replace(passing, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(passing, dir_fd=folder)
            raise


def make_folder(root: Path, path: str) -> None:
    """Make a folder, and those above it, where it is missing."""
    with _parent(root, f"{path}/x", create=True):
        pass


def remove(root: Path, path: str) -> None:
    """Remove a file, a link itself, or a folder with all below it; nothing happens where there is nothing."""
    with contextlib.suppress(FileNotFoundError), _parent(root, path) as (folder, name):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def kind(root: Path, path: str) -> int:
    """Return the file type bits (``stat.S_IFREG`` and so on) of what is at ``path``, or 0 where there is nothing."""
    try:
        with _parent(root, path) as (folder, name):
            return stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def walk(root: Path, path: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything below a folder but the folders, in path order, without following links; nothing if it is missing."""
    top = root / path if path else root
    try:
        for folder, folders, files, descriptor in os.fwalk(top, follow_symlinks=False):
            folders.sort()
            for name in sorted({*files, *(f for f in folders if _is_link(f, descriptor))}):
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    yield (Path(folder) / name).relative_to(root).as_posix(), found
    except (FileNotFoundError, NotADirectoryError):
        return


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _parent(root: Path, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that holds the last part of ``path``, and that part."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise ValueError(f"not a path below a folder: {path!r}")
    with contextlib.ExitStack() as opened:
        folder = _open_folder(str(root), None, opened)
        for part in parts[:-1]:
            if create:
                _make_folder(part, folder)
            folder = _open_folder(part, folder, opened)
        yield folder, parts[-1]


def _open_folder(name: str, above: int | None, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(name, _FOLDER, dir_fd=above)
    opened.callback(os.close, descriptor)
    return descriptor


def _make_folder(name: str, above: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=above)
        descriptor = os.open(name, _FOLDER, dir_fd=above)
        try:
            _belong(descriptor, above)
        finally:
            os.close(descriptor)


def _permissions(folder: int, name: str) -> int:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else 0o644


def _belong(descriptor: int, folder: int) -> None:
    """Give something new to the owner of the folder it lies in; only root can, and only root has to."""
    if os.geteuid() == 0:
        owner = os.fstat(folder)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
