"""What has become of a landing: whether its files are as they landed, and whether what was measured still holds here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent.landing.confined import escape_of, record_of, recorded_hashes
from agent.landing.folder import read_record
from agent.landing.history import change_of_module
from agent.landing.index import is_index, read_index
from agent.landing.kept import Kept, class_sha256, text_sha256
from agent.landing.taking_back import later_in_its_file
from agent.landing.write import read
from sandbox.errors import LandingRefused, UsageError

State = Literal["fresh", "edited", "stale", "missing", "broken"]
_CHANGES = {
    "torch": "torch is",
    "cuda": "CUDA is",
    "driver": "the driver is",
    "device": "the GPU is",
    "cpu": "the CPU is",
}
"""What a landing grows stale with, as it is said; on the CPU the device is the CPU, on a GPU the CPU does not matter."""


@dataclass(frozen=True)
class Standing:
    """A landing and its state now, with the reasons for it.

    ``broken``: it names files where no landing lies, and nothing of it was looked at. ``missing``: files of it are gone.
    ``stale``: it was judged with another torch, CUDA, driver or device, or the class was edited since. ``edited``: files of
    it were edited, the class was not. ``fresh``: all is as it landed, if by a rebase onto other versions of its file.
    """

    kept: Kept
    state: State
    reasons: tuple[str, ...] = ()


def is_gone(files: Iterable[Mapping[str, Any]]) -> bool:
    """Whether nothing is left of what a landing created (``ev.Landed.files``): others took it back, or somebody by hand."""
    created = [Path(each["path"]) for each in files if each["before"] is None]
    return bool(created) and not any(path.exists() for path in created if not is_index(path))


def standing(project: Path, kept: Kept, present: Mapping[str, str] | None = None) -> Standing:
    """Look at a landing's files, and compare what it was judged with to what there is now, if that is given."""
    escape = escape_of(project, kept)
    if escape:
        return Standing(kept, "broken", (escape,))
    module = _content(project / kept.file)
    record = read_record(_content(record_of(project, kept)))
    gone, edited = _files(project, kept, record)
    if module is None:
        gone.insert(0, kept.file)
    if gone:
        return Standing(kept, "missing", tuple(f"{name} is gone" for name in gone))
    stale = [*_environment(kept, present or {})]
    if class_sha256(module or b"", kept.class_name) != kept.class_sha256:
        stale.insert(0, f"{kept.class_name} was edited in {kept.file}")
    elif not _is_whole(project, kept, module or b""):
        edited.insert(0, f"{kept.file} was edited, {kept.class_name} was not")
    if stale:
        return Standing(kept, "stale", (*stale, *edited))
    return Standing(kept, "edited" if edited else "fresh", tuple(edited))


def _is_whole(project: Path, kept: Kept, module: bytes) -> bool:
    """Whether the developer's file is as this landing, a later one in the same file, or its rebased commit left it."""
    try:
        entries = read_index(project)
        left = {entries[name].file_sha256 for name in later_in_its_file(project, kept.name)}
        if text_sha256(module) in {kept.file_sha256, *left}:
            return True
        return text_sha256(change_of_module(project, kept).after or b"") == text_sha256(module)
    except (UsageError, LandingRefused, OSError):  # its original or its repository cannot be read
        return False


def is_as_landed(data: bytes, sha256: str) -> bool:
    """Whether a file has the content of a hash, or had it with other line ends: a clone may have changed those."""
    unix = data.replace(b"\r\n", b"\n")
    return sha256 in {hashlib.sha256(each).hexdigest() for each in (data, unix, unix.replace(b"\n", b"\r\n"))}


def _files(project: Path, kept: Kept, record: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return which files of the folder are gone, and what was edited there."""
    hashes = recorded_hashes(record)
    if hashes is None:
        place = record_of(project, kept)
        name = place.relative_to(project).as_posix()
        return ([name], []) if not place.exists() else ([], [f"{name} was edited"])
    gone, edited = [], []
    beside = (project / kept.file).parent
    for name, sha256 in hashes.items():
        path = beside / name
        if path == project / kept.file:
            continue
        data = _content(path)
        if data is None:
            gone.append(path.relative_to(project).as_posix())
        elif not is_as_landed(data, sha256):
            edited.append(f"{path.relative_to(project).as_posix()} was edited")
    return gone, edited


def _environment(kept: Kept, present: Mapping[str, str]) -> list[str]:
    watched = [key for key in _CHANGES if key != ("device" if kept.device == "cpu" else "cpu")]
    return [
        f"{_CHANGES[key]} {present[key]}, it was judged with {kept.environment[key]}"
        for key in watched
        if present and key in kept.environment and key in present and present[key] != kept.environment[key]
    ]


def _content(path: Path) -> bytes | None:
    try:
        return read(path)
    except (LandingRefused, OSError):
        return None
