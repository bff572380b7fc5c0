"""What a landing did to the developer's file, as far as the file and its history in git still tell."""

from __future__ import annotations

import os
from pathlib import Path

from agent.landing.again import original_of, with_ends_of
from agent.landing.change import FileChange
from agent.landing.confined import record_of
from agent.landing.kept import Kept, text_sha256
from agent.landing.merge import merge
from agent.landing.repository import GitFailed, Repository
from agent.landing.write import read

UNKNOWN = b"\0what landed is not known any more\0"
"""What landed, where it was edited since: no file is like it."""

_MOST_COMMITS = 50
"""How many versions of a file are looked through for the one that landed."""


def change_of_module(project: Path, kept: Kept) -> FileChange:
    """Return what a landing did to the developer's file: as it is there, as a commit has it, or as a rebased one does it.

    Raises:
        UsageError: The original is not kept any more.
    """
    path, original = project / kept.file, original_of(project, kept)
    current = read(path) or b""
    if text_sha256(current) == kept.file_sha256:
        return FileChange(path, original, current)
    repository = Repository.of(path.parent)
    if repository is None:
        return FileChange(path, original, UNKNOWN)
    key = _key(repository, path)
    for commit in repository.says("log", f"-{_MOST_COMMITS}", "--format=%H", "--", key).split():
        content = _blob(repository, commit, key)
        if content is not None and text_sha256(content) == kept.file_sha256:
            return FileChange(path, original, with_ends_of(content, current))
    before, after = _rebased(repository, project, kept, original) or (original, UNKNOWN)
    return FileChange(path, with_ends_of(before, current), with_ends_of(after, current))


def _rebased(repository: Repository, project: Path, kept: Kept, original: bytes) -> tuple[bytes, bytes] | None:
    """Return the developer's file before and after the commit of a landing, if all that it does to it is the landing.

    A rebase moves that commit onto other versions of the file than the landing saw. Done to the kept original, its change
    gives the file as it landed; where it does not, it holds edits of the developer's own.
    """
    record, key = _key(repository, record_of(project, kept)), _key(repository, project / kept.file)
    commit = repository.says("log", "-1", "--diff-filter=A", "--format=%H", "--", record)
    before, after = (_blob(repository, each, key) for each in (f"{commit}^", commit)) if commit else (None, None)
    if before is None or after is None:
        return None
    landed = merge(*(each.replace(b"\r\n", b"\n") for each in (before, original, after)))
    return (before, after) if landed is not None and text_sha256(landed) == kept.file_sha256 else None


def _key(repository: Repository, path: Path) -> str:
    return os.fsdecode(repository.key(path))


def _blob(repository: Repository, commit: str, key: str) -> bytes | None:
    try:
        return repository.ask("cat-file", "blob", f"{commit}:{key}")
    except GitFailed:
        return None
