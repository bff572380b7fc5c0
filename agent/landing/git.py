"""What the screen says about the developer's repository; reads only, and writes not even git's own caches."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class RepositoryState:
    """The repository a file lies in.

    Attributes:
        root: Its top folder.
        branch: The branch that is checked out; empty when HEAD is detached.
        head: Abbreviated commit; empty before the first one.
        changed: Tracked files that differ from that commit, staged or not, relative to ``root``.
        tracked: Whether the file itself is tracked.
    """

    root: Path
    branch: str
    head: str
    changed: tuple[str, ...]
    tracked: bool

    @property
    def summary(self) -> str:
        """One line, such as ``main, 2 files changed``."""
        place = self.branch or f"detached at {self.head}"
        if not self.head:
            place += ", no commit yet"
        if not self.changed:
            return f"{place}, clean"
        return f"{place}, {len(self.changed)} file{'s' if len(self.changed) > 1 else ''} changed"


def describe(path: Path) -> RepositoryState | None:
    """Return the state of the repository that holds a file; None where there is none, or no git to ask."""
    if shutil.which("git") is None:
        return None
    import git  # it looks for the program when it is imported, and takes a while to load

    ask = git.Git(path.parent)
    ask.update_environment(GIT_OPTIONAL_LOCKS="0")

    def answer(*command: str) -> str:
        whole = ["git", "-c", "core.fsmonitor=false", *command]
        return ask.execute(whole, kill_after_timeout=_TIMEOUT_SECONDS)

    try:
        root = Path(answer("rev-parse", "--show-toplevel"))
        status = answer(
            "status", "--porcelain=v2", "--branch", "-z", "-uno", "--no-renames", "--ignore-submodules=dirty"
        )
        tracked = bool(answer("ls-files", "--", path.name))
    except git.GitCommandError:
        return None
    return _read_status(root, status.split("\0"), tracked)


def _read_status(root: Path, entries: list[str], tracked: bool) -> RepositoryState:
    """Read porcelain version 2: headers, then one entry a file whose path is the last of a known number of fields."""
    headers = dict(entry.removeprefix("# ").split(" ", 1) for entry in entries if entry.startswith("# "))
    fields = {"1": 8, "u": 10}
    changed = tuple(entry.split(" ", fields[entry[0]])[-1] for entry in entries if entry[:1] in fields)
    branch, head = headers["branch.head"], headers["branch.oid"]
    return RepositoryState(
        root=root,
        branch="" if branch == "(detached)" else branch,
        head="" if head == "(initial)" else head[:9],
        changed=changed,
        tracked=tracked,
    )
