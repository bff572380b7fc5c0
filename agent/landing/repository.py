"""The developer's repository, and how it is asked: no hook runs, no cache of theirs is written, every path is literal."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

Entries = Mapping[bytes, tuple[bytes, bytes]]
"""Files as git holds them: by path below the repository's top folder, mode and blob."""

_TIMEOUT_SECONDS = 60
_ANOTHER_PLACE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS"),
)
"""What a hook that started us would have set: it speaks of a repository, and not of the one that holds the module."""
_QUIETLY = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "i18n.commitEncoding=UTF-8"),
    *("-c", "sparse.expectFilesOutsideOfPatterns=true"),
)
_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a sequence of picks",
    "BISECT_LOG": "a bisection",
}


class GitFailed(Exception):
    """git ended with an error; the text is what it said last, and ``status`` how it ended."""

    def __init__(self, said: str, status: int = -1) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True)
class Repository:
    """A repository with a working tree.

    Attributes:
        root: Its top folder.
        git_dir: Where this working tree's HEAD and index are.
    """

    root: Path
    git_dir: Path

    @classmethod
    def of(cls, folder: Path) -> Repository | None:
        """Return the innermost repository that holds a folder; None where there is none, or no git to ask."""
        if shutil.which("git") is None:
            return None
        try:
            lines = _git(folder, ("rev-parse", "--show-toplevel", "--absolute-git-dir"), b"", {}).decode(
                "utf-8", "surrogateescape"
            )
        except GitFailed:
            return None
        root, _, git_dir = lines.rstrip("\n").partition("\n")
        return cls(Path(root), Path(git_dir)) if root and git_dir else None

    def ask(
        self,
        *command: str | bytes,
        stdin: bytes = b"",
        index: Path | None = None,
        worktree: Path | None = None,
        objects: Path | None = None,
    ) -> bytes:
        """Run git and return what it prints.

        Args:
            command: Its arguments.
            stdin: What it reads.
            index: Used instead of the developer's.
            worktree: Used instead of the developer's.
            objects: Gets the objects that git writes, instead of the repository.

        Raises:
            GitFailed: It ended with an error.
        """
        variables = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        if objects is not None:
            held = str(self.path_of("objects"))
            variables |= {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": held}
        if worktree is not None:
            variables |= {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(worktree)}
        if index is not None and index.parent != self.git_dir:  # no part of a passing index is to stay in git's folder
            command = ("-c", "core.splitIndex=false", *command)
        return _git(self.root, command, stdin, variables)

    def says(self, *command: str) -> str:
        """Return the one line that git answers, or an empty text where it answers with an error."""
        try:
            return self.ask(*command).decode(errors="replace").strip()
        except GitFailed:
            return ""

    def path_of(self, name: str) -> Path:
        """Return where git keeps something of this repository (``index``, ``hooks``)."""
        return self.root / os.fsdecode(self.ask("rev-parse", "--git-path", name).rstrip(b"\n"))

    def key(self, path: Path) -> bytes:
        """Return a file's path as git holds it. Raises ``ValueError`` for one that is not below the top folder."""
        return os.fsencode(path.relative_to(self.root).as_posix())

    def in_tree(self, commit: str, keys: Iterable[bytes]) -> Entries:
        """Return those of the files that a commit holds; an empty name is no commit."""
        if not commit:
            return {}
        lines = self.ask("ls-tree", "-z", "--full-tree", commit, "--", *keys).split(b"\0")
        return {
            path: (head.split()[0], head.split()[2])
            for head, _, path in (each.partition(b"\t") for each in lines)
            if head
        }

    def in_index(self, keys: Iterable[bytes], index: Path | None = None) -> Entries:
        """Return those of the files that the index holds; one in conflict has a mode of its own."""
        lines = self.ask("ls-files", "-z", "--stage", "--", *keys, index=index).split(b"\0")
        found = {}
        for head, _, path in (each.partition(b"\t") for each in lines):
            if head:
                mode, blob, stage = head.split()
                found[path] = (mode if stage == b"0" else b"conflict", blob)
        return found

    def ignored(self, keys: Iterable[bytes]) -> list[tuple[str, str]]:
        """Return those of the files that git ignores, each with the rule and its place (``.gitignore:3:*.cpp``)."""
        names = b"".join(
            b"./" + key + b"\0" for key in keys
        )  # this command knows no literal paths, and would read magic
        command = ("check-ignore", "-z", "-v", "--stdin")
        try:
            told = _git(self.root, command, names, {"GIT_LITERAL_PATHSPECS": "0"}).split(b"\0")
        except GitFailed as error:
            if error.status == 1:  # none is
                return []
            raise
        rules = zip(told[0::4], told[1::4], told[2::4], told[3::4], strict=False)
        return [
            (os.fsdecode(path.removeprefix(b"./")), os.fsdecode(b":".join((source, line, pattern))))
            for source, line, pattern, path in rules
            if not pattern.startswith(b"!")
        ]

    @property
    def busy(self) -> str:
        """What the developer has begun here and not ended, such as ``a merge``; empty if nothing."""
        return next((what for name, what in _IN_PROGRESS.items() if (self.git_dir / name).exists()), "")

    @property
    def hooks(self) -> list[str]:
        """Names of the hooks that a commit of the developer's own would run."""
        told = _git(self.root, ("rev-parse", "--git-path", "hooks"), b"", {}, quietly=False)
        folder = self.root / os.fsdecode(told.rstrip(b"\n"))
        names = (
            "pre-commit",
            "prepare-commit-msg",
            "commit-msg",
            "post-commit",
            "reference-transaction",
            "post-index-change",
        )
        return [name for name in names if os.access(folder / name, os.X_OK)]


def _git(
    folder: Path, command: tuple[str | bytes, ...], stdin: bytes, variables: Mapping[str, str], *, quietly: bool = True
) -> bytes:
    kept = {key: value for key, value in os.environ.items() if key not in _ANOTHER_PLACE}
    ours = {"GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    whole = ["git", *(_QUIETLY if quietly else ()), *command]
    try:
        done = subprocess.run(
            whole,
            cwd=folder,
            env={**kept, **ours, **variables},
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(f"git {command[0]!s} took longer than {_TIMEOUT_SECONDS} seconds") from None
    except OSError as error:
        raise GitFailed(f"git does not start: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitFailed(said[-1] if said else f"git {command[0]!s} ended with {done.returncode}", done.returncode)
    return done.stdout
