"""Deciding what a landing writes, and refusing where it could not be right.

For a developer's module: its file with the accepted content and one visible addition (``@landed`` on the class and its
import), and beside it one folder that holds the kernels. For a KernelBench file: a new folder ``STEM_new`` beside it with
the workspace as it was judged (``model.py``, ``model_new.py``, ``kernels``); put that folder on ``sys.path`` to use it.
"""

from __future__ import annotations

import ast
import hashlib
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.landing.change import FileChange
from agent.landing.fallback import missing_attributes, plan_fallback
from agent.landing.folder import (
    ORIGINAL,
    RECORD,
    guarded,
    kernel_files,
    package,
    read_original,
    read_record,
    write_original,
    write_record,
)
from agent.landing.mentions import mentioned_names
from agent.landing.merge import merge
from agent.landing.source import add_guard, find_class, imports_kernels, in_style_of
from agent.landing.verified import VerifiedInputs
from agent.landing.write import read
from sandbox.errors import LandingRefused
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict


def plan(
    spec: TaskSpec,
    original: Mapping[str, bytes],
    state: Mapping[str, bytes],
    verdict: Verdict,
    verified: VerifiedInputs,
) -> list[FileChange]:
    """Return the changes that land an accepted state; nothing is written.

    Args:
        spec: The task.
        original: The workspace's files at the start of the session.
        state: The accepted files, as they were judged.
        verdict: What the judge said of them.
        verified: What the verdict holds for.

    Raises:
        LandingRefused: The state is not correct or changes nothing, or the developer's tree cannot take it.
    """
    if not verdict.correct:
        raise LandingRefused(f"The accepted state did not pass: {verdict.reason}", next_step="Land another attempt.")
    disk, contents = _contents(spec, original, state, verdict, verified)
    folder = next(path for path in contents if path.name == RECORD).parent
    if spec.kind == "kernelbench":
        return _folder_changes(folder.parent, contents)
    return [FileChange(spec.path, disk, contents[spec.path]), *_folder_changes(folder, contents)]


def landed_form(
    spec: TaskSpec,
    original: Mapping[str, bytes],
    state: Mapping[str, bytes],
    verdict: Verdict,
    verified: VerifiedInputs,
) -> dict[str, bytes]:
    """Return what ``plan`` lands, by path beside the Python file: that file, and the folder of kernels whole.

    A verdict of it is of what the project will run. See ``plan`` for arguments and errors.
    """
    _, contents = _contents(spec, original, state, verdict, verified)
    beside = next(path for path in contents if path.name == spec.candidate_file).parent
    return {path.relative_to(beside).as_posix(): data for path, data in contents.items()}


def _contents(
    spec: TaskSpec,
    original: Mapping[str, bytes],
    state: Mapping[str, bytes],
    verdict: Verdict,
    verified: VerifiedInputs,
) -> tuple[bytes | None, dict[Path, bytes]]:
    """Return what the developer's file holds now, and all that lands, by absolute path."""
    if spec.kind == "kernelbench":
        return None, _benchmark_contents(spec, original, state, verdict)
    return _module_contents(spec, original[spec.candidate_file], state, verdict, verified)


def _module_contents(
    spec: TaskSpec, base: bytes, state: Mapping[str, bytes], verdict: Verdict, verified: VerifiedInputs
) -> tuple[bytes, dict[Path, bytes]]:
    judged = in_style_of(base, state.get(spec.candidate_file, base))
    _check_module(spec, base, judged)
    folder = spec.path.parent / spec.kernels_module
    files, record = package(spec, kernel_files(spec, state), verdict)
    wanted = add_guard(judged, spec.class_name, spec.kernels_import)
    disk, before, after = _merged(spec, base, wanted, folder)
    verified = replace(verified, tf32=_tf32(spec, verdict)).held_to(mentioned_names(before, after, spec.class_name))
    record = guarded(record, verified, plan_fallback(before, after, spec.class_name, spec.class_name))
    files[ORIGINAL] = write_original(spec, before)
    contents = {spec.path: after, **{folder / name: data for name, data in files.items()}}
    return disk, {**contents, folder / RECORD: _record(record, contents, spec.path.parent)}


def _tf32(spec: TaskSpec, verdict: Verdict) -> str:
    """Return which of torch's flags allowed the TF32 that a kernel was held against; empty where none was used.

    A task that declares it has it everywhere, as a run that allows it in products does; otherwise it is torch's own default,
    which allows it to cuDNN.
    """
    if verdict.task.precision != "tf32":
        return ""
    return "matmul" if spec.precision == "tf32" else "cudnn"


def _benchmark_contents(
    spec: TaskSpec, original: Mapping[str, bytes], state: Mapping[str, bytes], verdict: Verdict
) -> dict[Path, bytes]:
    folder = spec.path.parent / f"{spec.path.stem}_new"
    reference = original.get("model.py") or read(spec.path) or b""
    files, record = package(spec, kernel_files(spec, state), verdict)
    contents = {folder / "model.py": reference, folder / "model_new.py": state["model_new.py"]}
    contents |= {folder / "kernels" / name: data for name, data in files.items()}
    contents[folder / "kernels" / RECORD] = _record(record, contents, spec.path.parent)
    return contents


def _check_module(spec: TaskSpec, base: bytes, judged: bytes) -> None:
    """Refuse what could not run where it lands."""
    name, where = spec.path.name, str(spec.path)
    if judged == base:
        what = f"The accepted state leaves {name} as it was, so there is nothing to land."
        raise LandingRefused(what, where=where, next_step=f"Accept at least one change of {name}.")
    if imports_kernels(ast.parse(base), spec.kernels_import):
        what = f"{name} held a landing already when this session began."
        raise LandingRefused(what, where=where, next_step="Undo that landing, then open the module again.")
    if name == "__init__.py" and "." not in spec.module_name:
        what = f"{name} cannot import a folder of kernels that lies beside it."
        raise LandingRefused(what, where=where, next_step="Move the class into a module of the package.")
    missing = missing_attributes(base, judged, spec.class_name, spec.class_name)
    if missing:
        names = ", ".join(f"self.{name}" for name in missing)
        what = f"{spec.class_name} no longer sets {names}, which its original forward may need where the kernels do not apply."
        raise LandingRefused(what, where=where, next_step=f"Have the agent keep {names} in the constructor.")


def _merged(spec: TaskSpec, base: bytes, wanted: bytes, folder: Path) -> tuple[bytes, bytes, bytes]:
    """Return what the file holds now, what counts as its original, and what it will hold."""
    disk = read(spec.path)
    if disk is None:
        what = f"{spec.path.name} is not there any more."
        raise LandingRefused(what, where=str(spec.path), next_step="Bring it back, then land again.")
    if disk == base or _is_landing_of(base, disk, spec, folder):
        return disk, base, wanted
    merged = merge(base, disk, wanted) if _same_class(base, disk, spec.class_name) else None
    if merged is None:
        what = f"{spec.path.name} was edited since the session began, where the accepted changes are."
        next_step = "Take the edit back, or start a new session on the edited file."
        raise LandingRefused(what, where=str(spec.path), next_step=next_step)
    return disk, disk, merged


def _same_class(base: bytes, disk: bytes, name: str) -> bool:
    """Whether an edited file still holds the class as it was at the start, but for comments and layout."""
    try:
        return ast.dump(find_class(ast.parse(base), name)) == ast.dump(find_class(ast.parse(disk), name))
    except (LookupError, SyntaxError, ValueError):
        return False


def _is_landing_of(base: bytes, disk: bytes, spec: TaskSpec, folder: Path) -> bool:
    """Whether the file is just as an earlier landing of this original left it."""
    record = read_record(read(folder / RECORD))
    return (
        record.get("files", {}).get(spec.path.name) == _sha256(disk) and read_original(read(folder / ORIGINAL)) == base
    )


def _folder_changes(folder: Path, contents: Mapping[Path, bytes]) -> list[FileChange]:
    """Return the changes that make a folder hold just these contents, where it is missing, empty or an earlier landing."""
    present = _present(folder)
    inside = {path: data for path, data in contents.items() if path.is_relative_to(folder)}
    changes = [FileChange(path, present.get(path), data) for path, data in inside.items() if present.get(path) != data]
    gone = [path for path in present if path not in inside]
    return changes + [FileChange(path, present[path], None, stat.S_IMODE(path.stat().st_mode)) for path in gone]


def _present(folder: Path) -> dict[Path, bytes]:
    """Return the files of an earlier landing; refuse a folder that holds anything else."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        what = f"{folder.name} is in the place where the kernels go."
        raise LandingRefused(what, where=str(folder), next_step="Move it away, then land again.")
    present = {path: read(path) or b"" for path in sorted(folder.rglob("*")) if not _is_passing(path)}
    records = [read_record(data) for path, data in present.items() if path.name == RECORD]
    known = records[0].get("files", {}) if records else {}
    for path, data in present.items():
        if path.name != RECORD and known.get(path.relative_to(folder.parent).as_posix()) != _sha256(data):
            what = f"{path.relative_to(folder.parent)} is not, or not as, an earlier landing left it."
            raise LandingRefused(what, where=str(path), next_step=f"Move {folder.name} away, then land again.")
    return present


def _is_passing(path: Path) -> bool:
    """Whether a path is a folder, bytecode, or what a landing that was cut off left."""
    return (path.is_dir() and not path.is_symlink()) or path.suffix == ".pyc" or path.name.endswith(".landing")


def _record(record: Mapping[str, Any], contents: Mapping[Path, bytes], beside: Path) -> bytes:
    """Write a record, with the hash of every other file that lands."""
    files = {path.relative_to(beside).as_posix(): _sha256(data) for path, data in contents.items()}
    return write_record({**record, "files": files})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
