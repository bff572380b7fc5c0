"""Where a landing lies, and whether that is where landings lie: the files of a clone say so, and are not believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from agent.landing.folder import RECORD, read_record
from agent.landing.index import FOLDER, INDEX
from agent.landing.kept import Kept
from agent.landing.write import read
from sandbox.errors import LandingRefused, UsageError


def record_of(project: Path, kept: Kept) -> Path:
    """Return where a landing's record lies."""
    folder = project / kept.folder
    return (folder / "kernels" if kept.kind == "kernelbench" else folder) / RECORD


def recorded_hashes(record: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the hash of each file that a record names, by path beside the developer's file; None if it names none."""
    hashes = record.get("files")
    return {str(name): str(sha256) for name, sha256 in hashes.items()} if isinstance(hashes, Mapping) else None


def recorded_sources(record: Mapping[str, Any]) -> list[str]:
    """Return the sources and headers of kernels that a record names, by path beside it."""
    recipe = record.get("recipe")
    named = [recipe.get(key) for key in ("files", "headers")] if isinstance(recipe, Mapping) else []
    return [str(name) for each in named if isinstance(each, Mapping | list | tuple) for name in each]


def task_paths(kept: Kept) -> dict[str, str]:
    """Return those fields of a landing's task that are paths in the project."""
    found = {key: kept.task[key] for key in ("capture", "inputs") if kept.task.get(key)}
    return {key: name for key, name in found.items() if key == "capture" or name.endswith((".pt", ".pth"))}


def expect_confined(project: Path, kept: Kept) -> None:
    """Refuse a landing that names files elsewhere, before anything is read or written for it.

    Raises:
        UsageError: It does.
    """
    escape = escape_of(project, kept)
    if escape:
        what = f"The landing {kept.name} is not touched: {escape}."
        next_step = (
            "See in git who changed this or the record in the folder of kernels, and bring it back as it landed."
        )
        raise UsageError(what, where=str(project / FOLDER / INDEX), next_step=next_step)


def escape_of(project: Path, kept: Kept) -> str:
    """Return what of a landing lies where no landing lies, in words; empty if nothing does.

    The developer's file and what makes the task lie below the project, the folder beside that file under the name that it
    gets there, and all that the folder's record names in that folder; symbolic links are followed.
    """
    for key, name in {"file": kept.file, "folder": kept.folder, **task_paths(kept)}.items():
        if not _is_below(project, project, name):
            return f"its {key} {name!r} is not a path inside the project"
    file, folder = project / kept.file, project / kept.folder
    usual = f"{file.stem}_new" if kept.kind == "kernelbench" else kept.task.get("kernels") or f"{file.stem}_kernels"
    if PurePosixPath(usual).name != usual or folder.resolve() != file.parent.resolve() / usual:
        return f"its folder {kept.folder!r} is not {usual!r} beside {kept.file}"
    where = record_of(project, kept)
    if not _is_below(folder, where.parent, where.name):
        return f"its record {where.relative_to(project).as_posix()!r} lies elsewhere"
    return next((f"its record names {name!r}, outside {kept.folder}" for name in _strangers(file, folder, where)), "")


def _strangers(file: Path, folder: Path, where: Path) -> Iterator[str]:
    """Yield what a record names and does not lie in its folder."""
    try:
        record = read_record(read(where))
    except (LandingRefused, OSError):
        return
    for name in recorded_hashes(record) or {}:
        if name != file.name and not _is_below(folder, file.parent, name):
            yield name
    for name in recorded_sources(record):
        if not _is_below(folder, where.parent, name):
            yield name


def _is_below(folder: Path, start: Path, name: str) -> bool:
    """Whether a relative name, from where it starts, leads to something below a folder."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        return False
    try:
        return folder.resolve() in (start / name).resolve().parents
    except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte
        return False
