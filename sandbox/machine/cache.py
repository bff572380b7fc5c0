"""What is kept on disk to be quicker next time: how much there is of each kind, how much there may be, and making room.

A part's units are the folders that hold files: an entry of a store of kernels, a folder of what torch or Triton compiled.
Whatever is removed is made again when it is asked for, and a library that a process has loaded stays loaded; so room is
made while others work, the longest unused first.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_GIB = 1024**3
_EVERY_SECONDS = 60.0
_RECENT_SECONDS = 3600.0
_OLD_SECONDS = 30 * 24 * 3600.0
_STAMP = "tidied"


@dataclass(frozen=True)
class Part:
    """One kind of what is kept: ``largest`` is how many bytes it may take."""

    name: str
    folder: Path
    largest: int


@dataclass(frozen=True)
class Usage:
    """How many units and bytes a part takes."""

    part: Part
    units: int
    bytes: int


@dataclass(frozen=True)
class _Unit:
    folder: Path
    files: tuple[Path, ...]
    bytes: int
    used: float


def kernel_parts(folder: Path) -> tuple[Part, ...]:
    """Return what the build keeps in its folder."""
    return (
        Part("objects", folder / "objects", 2 * _GIB),
        Part("hosts", folder / "hosts", 2 * _GIB),
        Part("libraries", folder / "libraries", 2 * _GIB),
    )


def baseline_parts(folder: Path) -> tuple[Part, ...]:
    """Return what torch and Triton keep of the baselines that they compiled."""
    return (
        Part("baselines", folder / "inductor", 4 * _GIB),
        Part("Triton kernels", folder / "triton", 2 * _GIB),
        Part("headers", folder / "headers", 2 * _GIB),
    )


def parts(cache: Path) -> tuple[Part, ...]:
    """Return the kinds of what a cache folder keeps."""
    return (*kernel_parts(kernels_folder(cache)), *baseline_parts(baselines_folder(cache)))


def kernels_folder(cache: Path) -> Path:
    """Return where the build keeps what it made."""
    return cache / "kernels"


def baselines_folder(cache: Path) -> Path:
    """Return where torch keeps what it compiled."""
    return cache / "compiled"


def usage(cache: Path) -> list[Usage]:
    """Return what each part takes."""
    found = []
    for part in parts(cache):
        units = list(_units(part.folder))
        found.append(Usage(part, len(units), sum(unit.bytes for unit in units)))
    return found


def tidy(folder: Path, kept: Iterable[Part]) -> None:
    """Bring parts under their bounds; looks at most once a minute, because looking reads every folder in them."""
    stamp = folder / _STAMP
    with contextlib.suppress(OSError):
        if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < _EVERY_SECONDS:
            return
        stamp.touch()
        for part in kept:
            make_room(part)


def prune(cache: Path, *, everything: bool) -> int:
    """Remove what was not used for a month and what is over a bound, or everything that was not used in the last hour.

    Returns:
        The bytes that were freed.
    """
    unused = _RECENT_SECONDS if everything else _OLD_SECONDS
    return sum(make_room(part, unused_seconds=unused) for part in parts(cache))


def make_room(part: Part, *, unused_seconds: float | None = None) -> int:
    """Remove units, the longest unused first, while a part is over its bound, and those unused for some time.

    Returns:
        The bytes that were freed.
    """
    units = sorted(_units(part.folder), key=lambda unit: unit.used)
    total = sum(unit.bytes for unit in units)
    oldest = float("-inf") if unused_seconds is None else time.time() - unused_seconds
    freed = 0
    for unit in units:
        if total - freed <= part.largest and unit.used >= oldest:
            break
        _remove(unit)
        freed += unit.bytes
    return freed


def _units(folder: Path) -> Iterator[_Unit]:
    for parent, _, names in os.walk(folder):
        files = tuple(Path(parent) / name for name in names)
        if unit := _unit(Path(parent), files):
            yield unit


def _unit(folder: Path, files: tuple[Path, ...]) -> _Unit | None:
    """Measure a folder; null where it holds no file, or is gone meanwhile."""
    found: list[os.stat_result] = []
    for file in files:
        with contextlib.suppress(OSError):
            found.append(file.lstat())
    with contextlib.suppress(OSError):
        times = [folder.stat().st_mtime, *(max(each.st_mtime, each.st_atime) for each in found)]
        return _Unit(folder, files, sum(each.st_blocks * 512 for each in found), max(times)) if found else None
    return None


def _remove(unit: _Unit) -> None:
    for file in unit.files:
        with contextlib.suppress(OSError):  # somebody else was quicker, or may write here and we may not
            file.unlink()
    with contextlib.suppress(OSError):  # it may hold other folders
        unit.folder.rmdir()


def keep_compiled_headers(compiled: Path, temporary: Path) -> None:
    """Let torch find the headers that it compiled for an earlier judge: it keeps them in the temporary folder only.

    Args:
        compiled: Where compiled baselines are kept.
        temporary: The temporary folder of the process with that torch.
    """
    headers = compiled / "headers"
    headers.mkdir(parents=True, exist_ok=True)
    link = temporary / f"torchinductor_{_user()}"
    if not link.is_symlink():
        link.symlink_to(headers.resolve(), target_is_directory=True)


def _user() -> str:
    """Return the user's name as torch writes it into its folder's name (``torch._inductor.runtime.cache_dir_utils``)."""
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):  # a container may run as a user whom no table knows
        return f"uid_{os.getuid()}"
