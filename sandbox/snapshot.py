"""A private copy of the candidate's files: what is hashed is what is built, guarded and run."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import UsageError
from sandbox.task import TaskSpec

LARGEST_FILE = 16 * 1024 * 1024


@dataclass(frozen=True)
class Snapshot:
    """A candidate as it is judged.

    Attributes:
        folder: Where its files lie.
        files: The same, in memory.
        landed: A folder with the same candidate in the form in which it lands, which is then what is run.
    """

    folder: Path
    files: Mapping[str, bytes]
    landed: Path | None = None


def read_candidate(candidate: Path, spec: TaskSpec) -> dict[str, bytes]:
    """Return the files that define a candidate, by relative posix path: its Python file, and all of ``kernels/``.

    Args:
        candidate: A workspace folder, or the Python file alone (with a ``kernels`` folder beside it, if there is one).
        spec: The task.

    Raises:
        UsageError: There is no such file, or it is absurdly large.
    """
    folder = candidate if candidate.is_dir() else candidate.parent
    python = candidate / spec.candidate_file if candidate.is_dir() else candidate
    kernels = sorted(
        path for path in (folder / "kernels").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    named = {spec.candidate_file: python, **{path.relative_to(folder).as_posix(): path for path in kernels}}
    return {name: _read(path) for name, path in sorted(named.items())}


def digest(files: dict[str, bytes]) -> str:
    """Return the sha256 over sorted paths and contents."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name}\0{len(files[name])}\0".encode())
        total.update(files[name])
    return total.hexdigest()


def kernels_digest(files: Mapping[str, bytes]) -> str:
    """Return the sha256 of those files that are built: all of ``kernels/``."""
    return digest({name: content for name, content in files.items() if name.startswith("kernels/")})


def write_snapshot(files: dict[str, bytes], folder: Path) -> Path:
    """Write the files below a new folder that everyone may read, and return it."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
        path.parent.chmod(0o755)
    for parent in (folder, folder / "kernels"):
        parent.mkdir(parents=True, exist_ok=True)
        parent.chmod(0o755)
    return folder


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UsageError("A file of the candidate is larger than 16 MB.", where=str(path))
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(
            "The candidate has no such file.",
            where=str(path),
            next_step="Name the workspace folder, or the candidate's Python file.",
        ) from error
