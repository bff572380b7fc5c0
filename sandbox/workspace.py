"""The workspace: a git repository of the session's own, in which the agent rewrites one module.

It holds the file the agent edits (``spec.candidate_file``) and ``kernels/``; for a KernelBench file also ``model.py``, the
reference, which is only to be read. The candidate file and everything below ``kernels/`` are what an attempt is made of.
Each commit holds exactly the judged files; the history is a convenience and never read back, but for the original.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sandbox import beneath
from sandbox.errors import TaskError, UsageError
from sandbox.history import History
from sandbox.rename import rename_class
from sandbox.task import TaskSpec

LARGEST_FILE = 1_000_000
MOST_FILES = 200
KERNELS = "kernels"
_REFERENCE = "model.py"
_PASSED_OVER = {"__pycache__"}


class UnfitWorkspace(UsageError):
    """The workspace holds something that cannot be part of an attempt; the message is meant for the agent."""


@dataclass(frozen=True)
class Workspace:
    """A session's workspace; see the module. Make one with :meth:`create` or :meth:`open`."""

    folder: Path
    spec: TaskSpec

    @classmethod
    def create(cls, spec: TaskSpec, folder: Path) -> Workspace:
        """Make the workspace of a task in ``folder``; one that was left half made is completed.

        Raises:
            TaskError: The reference cannot be read, or its class is not found in it.
            EnvironmentFault: git is missing or fails.
        """
        workspace = cls(folder.resolve(), spec)
        workspace.folder.mkdir(parents=True, exist_ok=True)
        history = workspace._history
        if not history.has_original():
            files = workspace._starting_point()
            history.begin()
            workspace.restore(files)
            history.record("The original", workspace._tracked(files), original=True)
        return workspace

    @classmethod
    def open(cls, spec: TaskSpec, folder: Path) -> Workspace:
        """Open the workspace of a session that goes on, completing it where its making was cut short."""
        return cls.create(spec, folder)

    @property
    def protected(self) -> tuple[Path, ...]:
        """What the agent must not write: the history, and the reference of a KernelBench task."""
        reference = (self.folder / _REFERENCE,) if self.spec.kind == "kernelbench" else ()
        return (self.folder / ".git", *reference)

    def is_protected(self, path: Path) -> bool:
        """Whether the agent must not write at ``path`` (absolute, or relative to the workspace)."""
        place = Path(os.path.normpath(self.folder / path))
        return any(place == guarded or guarded in place.parents for guarded in self.protected)

    def files(self) -> dict[str, bytes]:
        """Return what defines an attempt: relative posix path to content, the candidate file first.

        Raises:
            UnfitWorkspace: The candidate file is missing, or something is too large, binary, a link or too much.
        """
        found = {self.spec.candidate_file: self._read(self.spec.candidate_file)}
        if beneath.kind(self.folder, KERNELS) not in (0, stat.S_IFDIR):
            raise _unfit(KERNELS, "is not a folder", "Make it a folder again.")
        for path, _ in beneath.walk(self.folder, KERNELS):
            if not _is_passed_over(path):
                found[path] = self._read(path)
            if len(found) > MOST_FILES:
                raise _unfit(KERNELS, f"holds more than {MOST_FILES} files", "Remove what is not needed.")
        return found

    def original(self) -> dict[str, bytes]:
        """Return the same files as they were at the start."""
        kept = self._history.original()
        kept.pop(_REFERENCE if self.spec.kind == "kernelbench" else "", None)
        return kept

    def restore(self, files: Mapping[str, bytes]) -> None:
        """Make the candidate file and ``kernels/`` be exactly ``files``; other files stay as they are.

        Cut short at any point, it can simply be called again.
        """
        for path in files:
            if path != self.spec.candidate_file and not path.startswith(f"{KERNELS}/"):
                raise ValueError(f"no file of an attempt: {path!r}")
        if beneath.kind(self.folder, KERNELS) != stat.S_IFDIR:
            beneath.remove(self.folder, KERNELS)
        for path, _ in list(beneath.walk(self.folder, KERNELS)):
            if path not in files:
                beneath.remove(self.folder, path)
        if not files.keys() - {self.spec.candidate_file}:
            beneath.make_folder(self.folder, KERNELS)
        for path, content in files.items():
            self._write(path, content)
        if self.spec.kind == "kernelbench":
            beneath.write_file(self.folder, _REFERENCE, self._reference(), mode=0o444)

    def commit(self, message: str) -> str:
        """Record the present files in the history and return the commit's hash."""
        return self._history.record(message, self._tracked(self.files()))

    @property
    def _history(self) -> History:
        return History(self.folder)

    def _read(self, path: str) -> bytes:
        """Read one file of an attempt, refusing what cannot be one."""
        found = beneath.kind(self.folder, path)
        if found == 0:
            raise _unfit(path, "is missing", "Write it again.")
        if found != stat.S_IFREG:
            raise _unfit(path, "is not a regular file", "Replace the link or the folder by a file.")
        content = beneath.read_file(self.folder, path, LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise _unfit(path, f"is larger than {LARGEST_FILE:,} bytes", "Remove or shorten it.")
        if b"\0" in content:
            raise _unfit(path, "is binary", f"Remove it: only source files belong in {KERNELS}/.")
        return content

    def _write(self, path: str, content: bytes) -> None:
        """Write one file, replacing whatever else stands at its place or in its way."""
        parts = PurePosixPath(path).parts
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if beneath.kind(self.folder, above) not in (0, stat.S_IFDIR):
                beneath.remove(self.folder, above)
        if beneath.kind(self.folder, path) not in (0, stat.S_IFREG):
            beneath.remove(self.folder, path)
        beneath.write_file(self.folder, path, content)

    def _starting_point(self) -> dict[str, bytes]:
        """Return the files an agent starts from: the reference, with its class renamed for a KernelBench task."""
        source = self.spec.path.read_bytes() if self.spec.path.is_file() else None
        if source is None:
            raise TaskError("The reference's file does not exist.", where=str(self.spec.path))
        if self.spec.candidate_class != self.spec.class_name:
            source = rename_class(source, self.spec.class_name, self.spec.candidate_class, where=self.spec.path)
        return {self.spec.candidate_file: source}

    def _reference(self) -> bytes:
        kept = self._history.original() if self._history.has_original() else {}
        return kept.get(_REFERENCE) or self.spec.path.read_bytes()

    def _tracked(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        reference = {_REFERENCE: self._reference()} if self.spec.kind == "kernelbench" else {}
        return {**reference, **files}


def _is_passed_over(path: str) -> bool:
    """Whether a path below ``kernels/`` is no part of an attempt: hidden, or a by-product of running."""
    return any(part.startswith(".") or part in _PASSED_OVER for part in PurePosixPath(path).parts)


def _unfit(path: str, what: str, next_step: str) -> UnfitWorkspace:
    return UnfitWorkspace(f"{path} {what}.", where=path, next_step=next_step)
