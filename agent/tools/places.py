"""From the paths a model writes to files of the workspace, and no further."""

from __future__ import annotations

import errno
import posixpath
from dataclasses import dataclass
from pathlib import Path

from agent.tools.base import ToolProblem
from sandbox import beneath
from sandbox.workspace import Workspace

LARGEST_READ = 10_000_000


@dataclass(frozen=True)
class Places:
    """The workspace as the file tools see it: relative paths, nothing outside, no history, no link followed."""

    workspace: Workspace

    def relative(self, path: str) -> str:
        """Return a path relative to the workspace (``.`` for itself), refusing what is outside or belongs to its history."""
        if not path or "\0" in path:
            raise ToolProblem("The path is empty or holds a null character.")
        folder = str(self.workspace.folder)
        inside = (
            posixpath.relpath(posixpath.normpath(path), folder) if path.startswith("/") else posixpath.normpath(path)
        )
        if inside == ".." or inside.startswith("../"):
            raise ToolProblem(f"{path} is outside the workspace. Paths are relative to the workspace, {folder}.")
        if inside.split("/")[0] == ".git":
            raise ToolProblem(
                f"{path} belongs to the workspace's history, which is kept for you. Use git in Bash to read it."
            )
        return inside

    def writable(self, path: str) -> str:
        """Return a path as :meth:`relative` does, refusing what must stay as it is."""
        inside = self.relative(path)
        if inside == ".":
            raise ToolProblem("This is the workspace itself, not a file.")
        if self.workspace.is_protected(Path(inside)):
            file = self.workspace.spec.candidate_file
            raise ToolProblem(f"{inside} is the reference and cannot be changed. Write your version to {file}.")
        return inside

    def read(self, path: str) -> bytes:
        """Return a file's content; ``path`` as :meth:`relative` returns it."""
        if path == ".":
            raise ToolProblem("This is the workspace itself. List it with Glob.")
        try:
            content = beneath.read_file(self.workspace.folder, path, LARGEST_READ + 1)
        except FileNotFoundError:
            raise ToolProblem(f"{path} does not exist.") from None
        except IsADirectoryError:
            raise ToolProblem(f"{path} is a folder. List it with Glob.") from None
        except OSError as error:
            raise self._unreachable(path, error) from error
        if len(content) > LARGEST_READ:
            raise ToolProblem(f"{path} is larger than {LARGEST_READ:,} bytes. Look at parts of it with Bash.")
        return content

    def exists(self, path: str) -> bool:
        """Whether there is anything at a path; ``path`` as :meth:`relative` returns it."""
        return beneath.kind(self.workspace.folder, path) != 0

    def write(self, path: str, content: bytes) -> None:
        """Write a file; ``path`` as :meth:`writable` returns it."""
        try:
            beneath.write_file(self.workspace.folder, path, content)
        except IsADirectoryError:
            raise ToolProblem(f"{path} is a folder.") from None
        except OSError as error:
            raise self._unreachable(path, error) from error

    @staticmethod
    def _unreachable(path: str, error: OSError) -> Exception:
        """Say that a path leads through something it must not, or return the error as it is."""
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return ToolProblem(f"{path} is, or leads through, a symbolic link or a file; links are not followed.")
        if error.errno is None:
            return ToolProblem(f"{error}.")
        return ToolProblem(f"The name {path} is too long.") if error.errno == errno.ENAMETOOLONG else error
