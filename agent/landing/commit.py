"""A landing, or its undo, as one commit: built from the landed files alone, in an index of its own.

Nothing of the developer's goes into it that they had not committed: where a file to be landed differs from the last commit,
in their index or on the disk, there is no commit, and the reason is said. Hooks are not run, and nothing is signed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.landing.change import FileChange
from agent.landing.index import is_index
from agent.landing.index_swap import swap_entries, take_away_lock
from agent.landing.repository import Entries, GitFailed, Repository
from agent.landing.write import read
from sandbox.errors import LandingRefused
from sandbox.machine.scratch import scratch_folder

WITHOUT_COMMIT = "Or land it in the working tree only, and commit it yourself."
"""How a landing goes on where a commit cannot."""


@dataclass(frozen=True)
class Place:
    """Where a commit goes.

    Attributes:
        repository: The repository that holds the files.
        ref: The branch, as ``refs/heads/main``; ``HEAD`` where it is detached.
        old: The commit it stands at; empty before the first one.
        author: Whose name it will bear.
        notes: What a commit of the developer's own would do and this one does not.
    """

    repository: Repository
    ref: str
    old: str
    author: str
    notes: tuple[str, ...] = ()

    @property
    def branch(self) -> str:
        """The branch's name, or what is said of a detached HEAD."""
        return self.ref.removeprefix("refs/heads/") if self.ref != "HEAD" else f"a detached HEAD at {self.old[:9]}"


@dataclass(frozen=True)
class Commit:
    """A commit that was built and may have been published, as far as needed to settle it after a crash.

    Attributes:
        root: The repository's top folder.
        ref: See :class:`Place`.
        old: The commit it follows; empty for none.
        new: The commit.
        copy: Name of the copy of the developer's index, in git's folder; the lock of that index is a second name of it.
    """

    root: str
    ref: str
    old: str
    new: str
    copy: str

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return asdict(self)


def find_place(changes: Sequence[FileChange]) -> Place:
    """Return where a commit of these changes would go, before any of them is written; nothing is left behind.

    Raises:
        LandingRefused: There is no repository, or it is in a state that a commit would disturb.
    """
    folder = next(parent for parent in changes[0].path.parents if parent.is_dir())
    repository = Repository.of(folder)
    if repository is None:
        raise LandingRefused(
            "There is no git repository to commit to.", where=str(folder), next_step=f"Make one. {WITHOUT_COMMIT}"
        )
    if repository.busy:
        what = f"The repository is in the middle of {repository.busy}."
        raise LandingRefused(what, where=str(repository.root), next_step=f"End or abort it first. {WITHOUT_COMMIT}")
    try:
        keys = {repository.key(change.path): change for change in changes}
        ref = repository.says("symbolic-ref", "-q", "HEAD") or "HEAD"
        old = repository.says("rev-parse", "-q", "--verify", "HEAD^{commit}")
        author = _author(repository)
        _expect_committed(repository, old, keys)
        _expect_wanted(repository, keys)
    except ValueError as error:
        raise LandingRefused(f"A file lies outside the repository: {error}.", where=str(repository.root)) from error
    except GitFailed as error:
        raise _refused(repository, error) from error
    return Place(repository, ref, old, author, tuple(_left_out(repository)))


def build(place: Place, changes: Sequence[FileChange], message: str) -> Commit:
    """Make the commit of changes that have been written; no ref and no index points to it yet.

    Raises:
        LandingRefused: A file was edited meanwhile, or git does not take it.
    """
    repository = place.repository
    keys = {repository.key(change.path): change for change in changes}
    with scratch_folder("warpsmith-commit-") as scratch:
        index = scratch / "index"
        try:
            _read_tree(repository, place.old, index=index)
            _take_files(repository, keys, index=index)
            tree = repository.ask("write-tree", index=index).strip()
            _expect_inside(repository, repository.in_index(keys, index=index), scratch)
            parent = ("-p", place.old) if place.old else ()
            new = repository.ask("commit-tree", "--no-gpg-sign", tree, *parent, "-F", "-", stdin=message.encode())
        except GitFailed as error:
            raise _refused(repository, error) from error
    edited = next((change.path for change in changes if read(change.path) != change.after), None)
    if edited is not None:
        what = f"{edited.name} was edited while it was being committed."
        raise LandingRefused(what, where=str(edited), next_step="Look at the edit, then do it again.")
    copy = f"warpsmith-{secrets.token_hex(4)}.index"
    return Commit(str(repository.root), place.ref, place.old, new.decode().strip(), copy)


def publish(commit: Commit, changes: Sequence[FileChange]) -> None:
    """Move the branch to the commit, if it is where it was, and bring the landed files of the developer's index along.

    Raises:
        LandingRefused: The branch has moved, HEAD has, the index holds one of the files otherwise, or is locked. Then
            nothing was done.
    """
    repository = _repository(commit)
    keys = [repository.key(change.path) for change in changes]

    def move() -> None:
        if (repository.says("symbolic-ref", "-q", "HEAD") or "HEAD") != commit.ref:
            raise GitFailed("another branch has been checked out meanwhile")
        subject = repository.says("log", "-1", "--format=%s", commit.new)
        repository.ask("update-ref", "--no-deref", "-m", f"commit: {subject}", commit.ref, commit.new, commit.old)

    try:
        old, new = repository.in_tree(commit.old, keys), repository.in_tree(commit.new, keys)
        swap_entries(repository, commit.copy, keys, old, new, move)
    except (GitFailed, OSError) as error:
        raise _refused(repository, error) from error


def settle(commit: Commit, changes: Sequence[FileChange]) -> bool:
    """Complete a publication that was cut off, or clear it away; tell whether the branch has the commit.

    Raises:
        LandingRefused: The repository cannot be asked, or its index is locked by another.
    """
    repository = _repository(commit)
    keys = [repository.key(change.path) for change in changes]
    try:
        take_away_lock(repository, commit.copy)
        if not contains(repository, commit.ref, commit.new):
            return False
        old, new = repository.in_tree(commit.old, keys), repository.in_tree(commit.new, keys)
        held = repository.in_index(keys)
        waiting = [key for key in keys if held.get(key) == old.get(key) != new.get(key)]
        if waiting:
            swap_entries(repository, commit.copy, waiting, old, new, lambda: None)
    except (GitFailed, OSError) as error:
        raise _refused(repository, error) from error
    return True


def contains(repository: Repository, ref: str, commit: str) -> bool:
    """Whether a ref stands at a commit or at a later one."""
    try:
        repository.ask("merge-base", "--is-ancestor", commit, ref)
    except GitFailed:
        return False
    return True


def _repository(commit: Commit) -> Repository:
    repository = Repository.of(Path(commit.root))
    if repository is None:
        raise LandingRefused("The repository is not there any more.", where=commit.root, next_step="Bring it back.")
    return repository


def _author(repository: Repository) -> str:
    """Return whose name a commit bears; git's own guesses from the machine's name do not count."""
    try:
        told = [
            repository.ask("-c", "user.useConfigOnly=true", "var", f"GIT_{who}_IDENT")
            for who in ("AUTHOR", "COMMITTER")
        ]
    except GitFailed as error:
        what = "git does not know who you are, so there is nobody to name as the author."
        next_step = 'Tell it: git config user.name "..." and git config user.email "...".'
        raise LandingRefused(what, where=str(repository.root), next_step=f"{next_step} {WITHOUT_COMMIT}") from error
    return re.sub(r" \d+ [+-]\d+$", "", told[0].decode(errors="replace").strip())


def _left_out(repository: Repository) -> list[str]:
    hooks = repository.hooks
    notes = [f"Your hooks do not run ({', '.join(hooks)})."] if hooks else []
    if repository.says("config", "--type=bool", "--get", "commit.gpgsign") == "true":
        notes.append("It is not signed, although commit.gpgsign is on.")
    return notes


def _expect_committed(repository: Repository, old: str, keys: Mapping[bytes, FileChange]) -> None:
    """Refuse where the developer has changes of a file that are not committed: the commit would take them along."""
    head, staged = repository.in_tree(old, keys), repository.in_index(keys)
    with scratch_folder("warpsmith-commit-") as scratch:
        index, objects = scratch / "index", scratch / "objects"
        objects.mkdir()
        _read_tree(repository, old, index=index)
        _take_files(repository, keys, index=index, objects=objects)
        present = repository.in_index(keys, index=index)
    for key, change in keys.items():
        name, where = change.path.name, str(change.path)
        differs = not head.get(key) == staged.get(key) == present.get(key)
        if differs and is_index(change.path):
            what = f"{name} names landings that are not committed, and this commit would take their lines along."
            raise LandingRefused(what, where=where, next_step=f"Commit those first. {WITHOUT_COMMIT}")
        if key not in head and change.before is not None:
            what = f"{name} has never been committed, and this commit would hold all of it."
            raise LandingRefused(what, where=where, next_step=f"Commit the file first. {WITHOUT_COMMIT}")
        if differs:
            what = f"{name} has changes of yours that are not committed, and this commit would take them along."
            raise LandingRefused(what, where=where, next_step=f"Commit them first. {WITHOUT_COMMIT}")


def _expect_wanted(repository: Repository, keys: Mapping[bytes, FileChange]) -> None:
    """Refuse files that the developer keeps out of git, or out of its sight."""
    for path, rule in repository.ignored(key for key, change in keys.items() if change.after is not None):
        what = f"{path} is ignored in this repository, and without it the commit would not work."
        raise LandingRefused(what, where=rule, next_step=f"Let git see it. {WITHOUT_COMMIT}")
    for line in repository.ask("ls-files", "-z", "-v", "--", *keys).split(b"\0"):
        if line[:1].islower() or line[:1] == b"S":
            path = os.fsdecode(line[2:])
            flag = "skip-worktree" if line[:1] in (b"S", b"s") else "assume-unchanged"
            what = f"{path} is marked {flag}, so git is told not to look at it."
            raise LandingRefused(
                what, where=path, next_step=f"git update-index --no-{flag} -- {path}. {WITHOUT_COMMIT}"
            )


def _expect_inside(repository: Repository, entries: Entries, scratch: Path) -> None:
    """Refuse files that a sparse checkout would take off the disk again: it is tried out with them alone."""
    if repository.says("config", "--type=bool", "--get", "core.sparseCheckout") != "true":
        return
    alone, seen, tree = scratch / "alone", scratch / "seen", scratch / "tree"
    tree.mkdir()
    _set_entries(repository, entries, index=alone)
    only = repository.ask("write-tree", index=alone).strip()
    repository.ask("read-tree", "-m", "-u", only, index=seen, worktree=tree)
    told = repository.ask("ls-files", "-z", "-t", index=seen, worktree=tree).split(b"\0")
    outside = next((line[2:] for line in told if line[:1] == b"S"), None)
    if outside is not None:
        what = f"{os.fsdecode(outside)} lies outside your sparse checkout, which would take it off the disk again."
        raise LandingRefused(
            what, where=str(repository.root), next_step=f"git sparse-checkout add its folder. {WITHOUT_COMMIT}"
        )


def _set_entries(repository: Repository, entries: Entries, index: Path) -> None:
    lines = b"".join(mode + b" " + blob + b"\t" + path + b"\0" for path, (mode, blob) in entries.items())
    repository.ask("update-index", "-z", "--add", "--index-info", stdin=lines, index=index)


def _read_tree(repository: Repository, commit: str, index: Path) -> None:
    repository.ask("read-tree", commit or "--empty", index=index)


def _take_files(repository: Repository, keys: Iterable[bytes], index: Path, objects: Path | None = None) -> None:
    """Bring files from the disk into an index, as git would store them."""
    names = b"\0".join([*keys, b""])
    repository.ask("update-index", "--add", "--remove", "-z", "--stdin", stdin=names, index=index, objects=objects)


def _refused(repository: Repository, error: GitFailed | OSError) -> LandingRefused:
    said = error.strerror if isinstance(error, OSError) else error
    next_step = f"Mend this, then do it again. {WITHOUT_COMMIT}"
    return LandingRefused(f"It could not be committed: {said}.", where=str(repository.root), next_step=next_step)
