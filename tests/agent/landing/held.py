"""A full picture of what is the developer's in a folder, and how two of them may differ."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.agent.landing.repositories import picture
from tests.agent.landing.worlds import CALM, World


class Lost(AssertionError):
    """Something of the developer's is not what it was."""


@dataclass(frozen=True)
class Held:
    """A full picture: files, and what git holds beside them."""

    files: dict[str, tuple[int, str]]
    entries: frozenset[str]
    refs: frozenset[str]
    rest: dict[str, tuple[int, str]]
    index: tuple[int, str]
    head: str
    tree: str


def look(world: World) -> Held:
    """Take the picture of a world."""
    seen = picture(world.top)
    inside = {path: value for path, value in seen.items() if ".git" in Path(path).parts}
    files = {path: value for path, value in seen.items() if path not in inside}
    if not world.has_git:
        return Held(files, frozenset(), frozenset(), {}, (0, ""), "", "")
    entries = (
        ask(world, "ls-files", "-z", "--stage")
        + ask(world, "ls-files", "-z", "-v")
        + ask(world, "ls-files", "-z", "-t")
    )
    refs = [*ask(world, "for-each-ref").splitlines(), ask(world, "symbolic-ref", "-q", "HEAD")]
    place = world.root / ask(world, "rev-parse", "--git-path", "index").strip()
    index = inside.get(str(place.relative_to(world.top)), (0, "none"))
    settled = ("config", "hooks", "info", "stash", "index.lock", "MERGE_HEAD", "sparse-checkout", "worktrees")
    rest = {path: value for path, value in inside.items() if _is_settled(path, settled)}
    head, tree = (
        ask(world, "rev-parse", "-q", "--verify", "HEAD"),
        ask(world, "rev-parse", "-q", "--verify", "HEAD^{tree}"),
    )
    return Held(files, frozenset(entries.split("\0")), frozenset(refs), rest, index, head, tree)


def _is_settled(path: str, names: Sequence[str]) -> bool:
    return any(name in Path(path).parts or Path(path).name == name for name in names) and not path.endswith(
        ("/index", "/HEAD")
    )


def ask(world: World, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=world.root, env={**os.environ, **CALM}, capture_output=True, text=True)
    return done.stdout


def expect(holds: object, what: str) -> None:
    if not holds:
        raise Lost(f"not so: {what}")


def same(before: Held, after: Held) -> None:
    expect(before == after, f"nothing changed; {_difference(before, after)}")


def only(before: Held, after: Held, world: World, paths: Sequence[Path]) -> None:
    """Files: only those that were written, and the folders that came and went with them."""
    names = {str(path.relative_to(world.top)) for path in paths}
    above = {str(parent) for name in names for parent in Path(name).parents}
    touched = {path for path in {*before.files, *after.files} if before.files.get(path) != after.files.get(path)}
    folders = {
        path for path in touched if path in above and (before.files.get(path) is None or after.files.get(path) is None)
    }
    expect(touched - folders <= names, f"only what is written changes: {sorted(touched - folders - names)}")
    modes = {n for n in names if n in before.files and n in after.files and before.files[n][0] != after.files[n][0]}
    expect(not modes, f"modes are kept: {modes}")


def kept(before: Held, after: Held, keys: Sequence[str], commit: str) -> None:
    """What git holds: nothing changes but, for a commit, its branch and the entries of its files."""
    expect(
        before.rest == after.rest,
        f"config, hooks, stash and locks are as they were: {_keys_of(before.rest, after.rest)}",
    )
    if not commit:
        expect(before.entries == after.entries, "the index is as it was")
        expect(before.index == after.index, "no byte of the index changes")
        expect(before.refs == after.refs, "the refs are as they were")
        return
    changed = before.entries ^ after.entries
    others = {each for each in changed if not any(each.endswith(f"\t{key}") or each[2:] == key for key in keys)}
    expect(not others, f"no other entry of the index changes: {others}")
    moved = before.refs ^ after.refs
    expect(all(before.head.strip() in ref or commit in ref for ref in moved), f"only the branch moves: {moved}")
    expect(after.head.strip() == commit, "the branch has the commit")


def clean(world: World, keys: Sequence[str]) -> bool:
    told = ask(world, "--literal-pathspecs", "status", "--porcelain", "-z", "-uall", "--", *keys)
    stale = ask(world, "--literal-pathspecs", "diff-files", "--name-only", "--", *keys)
    return not told and not stale


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _keys_of(one: dict[str, tuple[int, str]], other: dict[str, tuple[int, str]]) -> list[str]:
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))


def _difference(before: Held, after: Held) -> str:
    changed = _keys_of(before.files, after.files) + _keys_of(before.rest, after.rest)
    return f"{changed} {before.entries ^ after.entries} {before.refs ^ after.refs}"
