"""A landing judged again: its kept original in the place where it was, in a copy of the project, against what lies there now."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.landing.confined import expect_confined, record_of, recorded_sources, task_paths
from agent.landing.folder import ORIGINAL, read_original, read_record
from agent.landing.kept import Kept
from agent.landing.source import remove_guard
from agent.landing.write import read
from sandbox.errors import UsageError
from sandbox.target import SKIPPED_FOLDERS, locate
from sandbox.task import TaskSpec

LARGEST_COPY = 16 * 1024 * 1024
"""Bytes of a file that is copied with the project; a larger one is only pointed to."""


@dataclass(frozen=True)
class Again:
    """A landing as a task and a candidate.

    Attributes:
        spec: The task, its reference in a copy of the project that holds the original.
        files: The candidate as a workspace holds it.
        form: The candidate as it landed.
    """

    spec: TaskSpec
    files: dict[str, bytes]
    form: dict[str, bytes]


def prepare_again(
    project: Path, kept: Kept, python: Path, device: str, folder: Path, elsewhere: Mapping[str, Path]
) -> Again:
    """Put a landing together for the judge, with a copy of the project in ``folder``; see ``task_of``.

    Raises:
        UsageError: Files of it are gone, or the original is not there any more.
    """
    spec = restored(task_of(project, kept, python, device, elsewhere), project, kept, folder)
    beside, form = (project / kept.file).parent, {}
    where = project / kept.folder
    for path in sorted(where.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            form[path.relative_to(where if kept.kind == "kernelbench" else beside).as_posix()] = path.read_bytes()
    if kept.kind == "module":
        form[spec.candidate_file] = _present(project / kept.file)
    source = form.get(spec.candidate_file)
    if source is None:
        raise _gone(where / spec.candidate_file)
    if kept.kind == "module":
        source = remove_guard(source, spec.class_name, spec.kernels_import)
    return Again(spec, {spec.candidate_file: source, **_kernels(project, kept)}, form)


def task_of(project: Path, kept: Kept, python: Path, device: str, elsewhere: Mapping[str, Path]) -> TaskSpec:
    """Return a landing's task as it was when it was landed, its file being what lies there now.

    What makes it is in the project, as a colleague's clone has it, or ``elsewhere``, where this machine knows of it.

    Raises:
        UsageError: It names files outside the project, or what makes it is not there any more.
    """
    expect_confined(project, kept)
    path = project / kept.file
    root, module_name = locate(path)
    told = {key: value for key, value in kept.task.items() if key != "lands_at"}
    told |= {key: str(_there(project, name, elsewhere.get(key))) for key, name in task_paths(kept).items()}
    data = {"kind": kept.kind, "class_name": kept.class_name, "module_name": module_name, "device": device}
    return TaskSpec.from_json({**told, **data, "path": path, "root": root, "python": python})


def restored(spec: TaskSpec, project: Path, kept: Kept, folder: Path) -> TaskSpec:
    """Copy what a task's file may import into a folder, with the original in its place, and return the task there.

    Raises:
        UsageError: The original is not there any more.
    """
    original = original_of(project, kept)
    source = spec.root if "." in spec.module_name else spec.path.parent
    path = folder / spec.path.relative_to(source)
    _copy(source, folder)
    path.unlink(missing_ok=True)
    path.write_bytes(original)
    return spec.with_changes(path=path, root=folder)


def original_of(project: Path, kept: Kept) -> bytes:
    """Return the developer's file as it was before the landing, with the line ends of what lies there now.

    Raises:
        UsageError: It is not kept any more.
    """
    if kept.kind == "kernelbench":
        return _present(project / kept.folder / "model.py")
    place = project / kept.folder / ORIGINAL
    original = read_original(read(place))
    if original is None:
        raise _gone(place)
    return with_ends_of(original, read(project / kept.file) or b"")


def with_ends_of(text: bytes, other: bytes) -> bytes:
    """Return a text with the line ends of another, where each has one kind of them."""
    unix = text.replace(b"\r\n", b"\n")
    lines, ends = other.count(b"\n"), other.count(b"\r\n")
    if lines and ends == lines and b"\r\n" not in text:
        return unix.replace(b"\n", b"\r\n")
    return unix if lines and not ends and text.count(b"\r\n") == text.count(b"\n") else text


def _kernels(project: Path, kept: Kept) -> dict[str, bytes]:
    """Return the kernel files of a landing, by their path in a workspace."""
    folder = record_of(project, kept).parent
    names = recorded_sources(read_record(read(record_of(project, kept))))
    return {f"kernels/{name}": _present(folder / name) for name in names if not name.startswith("_landed")}


def _copy(source: Path, target: Path) -> None:
    for place, folders, names in os.walk(source):
        here, there = Path(place), target / Path(place).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in links and not _is_passed_over(here / name)]
        for name in (*names, *links):
            path = here / name
            small = path.is_file() and path.stat().st_size <= LARGEST_COPY
            if small:
                shutil.copy(path, there / name)
            elif path.exists() and not _is_passed_over(path):
                (there / name).symlink_to(path.resolve())


def _is_passed_over(path: Path) -> bool:
    return path.name.startswith(".") or path.name in SKIPPED_FOLDERS or (path / "pyvenv.cfg").exists()


def _there(project: Path, name: str, elsewhere: Path | None) -> Path:
    path = project / name
    if path.exists():
        return path
    if elsewhere is None:
        what = f"What makes the task is neither in this project nor with a session of this machine: {name}."
        next_step = (
            f"Recordings stay with their session. Put it there from whoever landed it (its recording's captures/{path.name}), "
            "or record the calls again (warpsmith hotspots) and land the module anew."
        )
        raise UsageError(what, where=str(path), next_step=next_step)
    return elsewhere


def _present(path: Path) -> bytes:
    data = read(path)
    if data is None:
        raise _gone(path)
    return data


def _gone(path: Path) -> UsageError:
    lost = path if path.parent.is_dir() else path.parent
    next_step = f"Bring it back (git checkout HEAD -- {shlex.quote(str(lost))}), or land anew."
    return UsageError("A file of the landing is gone.", where=str(path), next_step=next_step)
