"""Tasks that training must never see, because they are what policies are measured by.

A task is known by its source: the sha256 of its file, or what the file says where comments and layout alone differ. Tasks that
lie where KernelBench keeps its own are known by that, whatever is named.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.exports.trajectory import Trajectory
from agent.store import read_blob
from sandbox.errors import EnvironmentFault, TaskError, UsageError
from sandbox.likeness import likeness
from sandbox.rename import rename_class

_KERNELBENCH = re.compile(r"kernel_?bench/|(^|/)level[1-4]/\d+_[^/]+\.py$", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Excluded:
    """Hashes of sources that are kept out, and the files and folders that named them."""

    hashes: frozenset[str] = frozenset()
    named: tuple[str, ...] = ()

    def why(self, trajectory: Trajectory) -> str:
        """Return why a session's task is kept out, in one sentence; empty where it is not."""
        return self._why(trajectory.session.task.path, _hashes_of(trajectory))

    def left_of(self, files: Iterable[Path]) -> list[Path]:
        """Return the files of tasks that may be learnt from, and tell on stderr how many may not, and why.

        Raises:
            UsageError: There are none.
        """
        whys = {file: self._why(file.absolute(), _forms(file.read_bytes(), file)) for file in files}
        told = " ".join(f"{times} × {why}" for why, times in Counter(filter(None, whys.values())).items())
        if all(whys.values()):
            raise UsageError(
                f"No task is left to learn from: {told}",
                where=str(next(iter(whys), "")),
                next_step="Name tasks that no policy is measured by.",
            )
        if told:
            sys.stderr.write(f"Tasks that are kept out: {told}\n")
        return [file for file, why in whys.items() if not why]

    def _why(self, path: Path, hashes: Iterable[str]) -> str:
        if _KERNELBENCH.search(path.as_posix()):
            return "Its task is one of KernelBench's."
        return "Its task is one that --exclude names." if self.hashes & set(hashes) else ""

    @property
    def sha256(self) -> str:
        """One hash over all of them, to tell later what was kept out."""
        return hashlib.sha256("\n".join(sorted(self.hashes)).encode()).hexdigest()


NOTHING = Excluded()


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names what is kept out."""
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="tasks to keep out: a folder of Python files, a Python file, or a file with one sha256 of a source a line",
    )


def excluded(paths: Iterable[Path]) -> Excluded:
    """Return what these name: a folder all Python files in it, a Python file itself, another file the sha256 in its lines.

    Raises:
        UsageError: There is no such file, or it names nothing.
    """
    found, named = set[str](), []
    for path in paths:
        try:
            hashes = _named_by(path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"What is to be kept out cannot be read: {error}.", where=str(path)) from error
        if not hashes:
            raise UsageError(
                "This names no task to keep out.",
                where=str(path),
                next_step="Name a folder of Python files, a Python file, or a file with one sha256 of a source a line.",
            )
        found |= hashes
        named.append(str(path))
    return Excluded(frozenset(found), tuple(named))


def _named_by(path: Path) -> set[str]:
    if path.is_dir():
        return {each for file in sorted(path.rglob("*.py")) for each in _forms(file.read_bytes(), path)}
    if path.suffix == ".py":
        return set(_forms(path.read_bytes(), path))
    return set(_SHA256.findall(path.read_text()))


def _forms(source: bytes, path: Path) -> Iterator[str]:
    """Yield the hashes by which a source is known, also where its class is called as a candidate's is."""
    yield from _both(source)
    with suppress(TaskError):
        yield likeness({"model.py": rename_class(source, "Model", "ModelNew", where=path)})


def _hashes_of(trajectory: Trajectory) -> Iterator[str]:
    """Yield the hashes of a session's reference, as the judge named it and as its workspace held it at the start."""
    yield trajectory.source_sha256
    for name, sha256 in trajectory.state.original_files.items():
        yield sha256
        if name.endswith(".py"):
            with suppress(EnvironmentFault):  # a blob that is gone is known by its hash alone
                yield from _both(read_blob(trajectory.session.folder, sha256))


def _both(source: bytes) -> tuple[str, str]:
    return hashlib.sha256(source).hexdigest(), likeness({"model.py": source})
