"""Landings and undos over repositories in every state, held against a full picture of what is the developer's.

    python -m tests.agent.landing.states --count 1000        # or --minutes 10; --seed N for one of them

A seed decides the state, what is done, and what the developer does in between. Whatever happens, no byte of theirs may be
lost: files, index entries with their flags, refs, stash, config and hooks are compared before and after each deed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.commit import find_place
from agent.landing.deed import Journal, carry_out
from agent.landing.index import noted
from agent.landing.taking_back import place_of_undo, take_back
from sandbox.errors import LandingRefused
from tests.agent.landing import repositories
from tests.agent.landing.repositories import MODULE, picture

NAME = "pkg/blocks.py:Block"
LINES = [f'"{NAME}".class_name = "Block"', f'"{NAME}".file = "pkg/blocks.py"']
CALM = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}


def git(folder: Path, *command: str) -> str:
    """Make a state, without hooks and signatures, whatever was drawn."""
    return repositories.git(folder, "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", *command)


class Lost(AssertionError):
    """Something of the developer's is not what it was."""


@dataclass
class World:
    """A developer's folder in some state.

    Attributes:
        root: The project's top folder.
        top: What is looked at, the repository included.
        module: Their file.
        traits: What was drawn, in words.
    """

    root: Path
    top: Path
    module: Path
    traits: list[str] = field(default_factory=list)

    @property
    def has_git(self) -> bool:
        return (self.root / ".git").exists()


# --- the states ----------------------------------------------------------------------------------------------------


def draw(seed: int, top: Path) -> World:
    """Make a developer's folder in the state of a seed."""
    chance = random.Random(seed)
    world = _begun(chance, top)
    traits, most = (TRAITS, 5) if world.has_git else (BARE_TRAITS, 2)
    for trait in chance.sample(traits, k=chance.randint(0, most)):
        try:
            trait(world, chance)
        except (subprocess.CalledProcessError, OSError):
            continue  # this state and an earlier one exclude each other
        world.traits.append(trait.__name__)
    return world


def _begun(chance: random.Random, top: Path) -> World:
    """Make the repository, or none: plain, unborn, detached, a worktree, a submodule."""
    kind = chance.choice(["none", "plain", "plain", "plain", "plain", "unborn", "detached", "worktree", "submodule"])
    end = chance.choice([b"\n", b"\n", b"\r\n"])
    root = top / chance.choice(["project", "a project ü", "pro[j]*ect"])
    _files(root, end)
    world = World(root, top, root / "pkg/blocks.py", [kind, "crlf" if end == b"\r\n" else "lf"])
    if kind == "none":
        return world
    git(root, "init", "-q", "-b", "main")
    for key, value in _config(chance):
        git(root, "config", key, value)
        world.traits.append(f"{key}={value}")
    if chance.random() < 0.3:
        rule = chance.choice([b"*.py text\n", b"*.py text eol=lf\n", b"*.py -text\n", b"*.py filter=up\n"])
        (root / ".gitattributes").write_bytes(rule)
        git(root, "config", "filter.up.clean", "tr a-z A-Z")
        git(root, "config", "filter.up.smudge", "tr A-Z a-z")
        world.traits.append(rule.decode().strip())
    if kind == "unborn":
        return world
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "start")
    if kind == "detached":
        git(root, "checkout", "-q", "--detach")
    if kind == "worktree":
        git(root, "worktree", "add", "-q", "-b", "side", str(top / "side"))
        world.root, world.module = top / "side", top / "side/pkg/blocks.py"
    if kind == "submodule":
        (top / "outer").mkdir()
        git(top / "outer", "init", "-q", "-b", "main")
        git(top / "outer", "submodule", "--quiet", "add", str(root), "inner")
        _identify(top / "outer/inner")
        world.root, world.module = top / "outer/inner", top / "outer/inner/pkg/blocks.py"
    return world


def _files(root: Path, end: bytes) -> None:
    (root / "pkg").mkdir(parents=True)
    (root / "pkg/__init__.py").write_bytes(b"")
    (root / "pkg/other.py").write_bytes(b"OTHER = 1\r\n")
    (root / "pkg/blocks.py").write_bytes(MODULE.replace(b"\n", end))
    (root / "notes.txt").write_bytes(b"notes\n")


def _identify(folder: Path) -> None:
    git(folder, "config", "user.name", "Dev Eloper")
    git(folder, "config", "user.email", "dev@example.org")


def _config(chance: random.Random) -> list[tuple[str, str]]:
    found = [("user.name", "Dev Eloper"), ("user.email", "dev@example.org")] if chance.random() < 0.9 else []
    odd = [
        ("core.autocrlf", "true"),
        ("core.autocrlf", "input"),
        ("core.fileMode", "false"),
        ("commit.gpgsign", "true"),
        ("core.splitIndex", "true"),
        ("core.untrackedCache", "true"),
        ("index.version", "4"),
        ("core.logAllRefUpdates", "false"),
        ("core.ignoreCase", "true"),
        ("i18n.commitEncoding", "ISO-8859-1"),
        ("core.quotePath", "false"),
    ]
    return found + chance.sample(odd, k=chance.randint(0, 3))


def staged(world: World, _: random.Random) -> None:
    (world.root / "new.txt").write_bytes(b"new\n")
    (world.root / "pkg/other.py").write_bytes(b"STAGED = 1\n")
    git(world.root, "add", "pkg/other.py", "new.txt")


def not_staged(world: World, _: random.Random) -> None:
    (world.root / "pkg/other.py").write_bytes(b"NOT_STAGED = 1\n")


def untracked(world: World, _: random.Random) -> None:
    (world.root / "pkg/untracked.py").write_bytes(b"mine\n")


def intended(world: World, _: random.Random) -> None:
    (world.root / "pkg/soon.py").write_bytes(b"soon\n")
    git(world.root, "add", "-N", "pkg/soon.py")


def removed(world: World, _: random.Random) -> None:
    git(world.root, "rm", "-q", "-f", "--cached", "--ignore-unmatch", "notes.txt")


def renamed(world: World, _: random.Random) -> None:
    (world.root / "notes.txt").rename(world.root / "notes.md")


def stashed(world: World, _: random.Random) -> None:
    if not _born(world):
        return
    (world.root / "notes.txt").write_bytes(b"stashed\n")
    git(world.root, "stash")


def hooks(world: World, _: random.Random) -> None:
    folder = world.root / repositories.git(world.root, "rev-parse", "--git-path", "hooks").strip()
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-index-change",
        "reference-transaction",
        "post-checkout",
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\ntouch '{world.top}/hook-ran'\nexit 1\n")
        (folder / name).chmod(0o755)


def executable(world: World, _: random.Random) -> None:
    world.module.chmod(0o755)


def module_edited(world: World, _: random.Random) -> None:
    world.module.write_bytes(world.module.read_bytes() + b"# edited\n")


def module_staged(world: World, _: random.Random) -> None:
    world.module.write_bytes(world.module.read_bytes() + b"# staged\n")
    git(world.root, "add", "pkg/blocks.py")


def module_hidden(world: World, chance: random.Random) -> None:
    if _born(world):
        git(world.root, "update-index", chance.choice(["--assume-unchanged", "--skip-worktree"]), "pkg/blocks.py")


def other_hidden(world: World, chance: random.Random) -> None:
    if _born(world):
        git(world.root, "update-index", chance.choice(["--assume-unchanged", "--skip-worktree"]), "pkg/__init__.py")


def kernels_ignored(world: World, chance: random.Random) -> None:
    (world.root / ".gitignore").write_text(chance.choice(["*_kernels\n", "*.cpp\n", ".warpsmith\n", "*.toml\n"]))


def merging(world: World, chance: random.Random) -> None:
    """A merge, a rebase, a pick or a bisection was begun, or only an unmerged file is left of one."""
    if _born(world):
        name = chance.choice(["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"])
        place = world.root / git(world.root, "rev-parse", "--git-path", name).strip()
        place.write_text(git(world.root, "rev-parse", "HEAD"))


def unmerged(world: World, _: random.Random) -> None:
    blob = git(world.root, "hash-object", "-w", "notes.txt") if (world.root / "notes.txt").exists() else ""
    if blob:
        lines = "".join(f"100644 {blob.strip()} {stage}\tclash.txt\n" for stage in (1, 2, 3))
        quiet = ["git", "-c", "core.hooksPath=/dev/null", "update-index", "--index-info"]
        subprocess.run(quiet, cwd=world.root, input=lines.encode(), check=True, capture_output=True)


def packed(world: World, _: random.Random) -> None:
    if _born(world):
        git(world.root, "tag", "-f", "v1")
        git(world.root, "branch", "-q", "-f", "other")
        git(world.root, "pack-refs", "--all")


def sparse(world: World, chance: random.Random) -> None:
    if _born(world):
        cone = chance.random() < 0.5
        folder = chance.choice(["pkg", "elsewhere/deep", "pkg/deep"])
        git(
            world.root,
            "sparse-checkout",
            "set",
            "--cone" if cone else "--no-cone",
            folder if cone else "/pkg/blocks.py",
        )


def linked(world: World, _: random.Random) -> None:
    (world.root / "link.py").symlink_to("pkg/blocks.py")


def module_linked(world: World, _: random.Random) -> None:
    world.module.rename(world.root / "real.py")
    world.module.symlink_to("../real.py")


def index_linked(world: World, _: random.Random) -> None:
    (world.root / "elsewhere").mkdir(exist_ok=True)
    (world.root / ".warpsmith").symlink_to("elsewhere")


def landed_before(world: World, _: random.Random) -> None:
    (world.root / ".warpsmith").mkdir(exist_ok=True)
    (world.root / ".warpsmith/landed.toml").write_bytes(b'# mine\n\n"a.py:A".file = "a.py"\n\n"z.py:Z".file = "z.py"\n')


def index_locked(world: World, _: random.Random) -> None:
    index = world.root / git(world.root, "rev-parse", "--git-path", "index").strip()
    index.with_name("index.lock").write_bytes(b"another's")


def safe_line_ends(world: World, _: random.Random) -> None:
    git(world.root, "config", "core.safecrlf", "true")


def protected(world: World, _: random.Random) -> None:
    world.module.chmod(0o444)


def in_the_way(world: World, _: random.Random) -> None:
    (world.root / "pkg/blocks_kernels").write_bytes(b"mine\n")


TRAITS: list[Callable[[World, random.Random], None]] = [
    *(
        staged,
        not_staged,
        untracked,
        intended,
        removed,
        renamed,
        stashed,
        hooks,
        executable,
        module_edited,
        module_staged,
    ),
    *(
        module_hidden,
        other_hidden,
        kernels_ignored,
        merging,
        unmerged,
        packed,
        sparse,
        linked,
        landed_before,
        protected,
    ),
    *(in_the_way, staged, not_staged, untracked, stashed, hooks, other_hidden, packed, landed_before, safe_line_ends),
    *(module_linked, index_linked, index_locked),
]
BARE_TRAITS = [
    untracked,
    executable,
    module_edited,
    linked,
    module_linked,
    index_linked,
    landed_before,
    protected,
    in_the_way,
]


def _born(world: World) -> bool:
    return (
        subprocess.run(["git", "rev-parse", "-q", "--verify", "HEAD"], cwd=world.root, capture_output=True).returncode
        == 0
    )


# --- what is the developer's -----------------------------------------------------------------------------------------


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
        _ask(world, "ls-files", "-z", "--stage")
        + _ask(world, "ls-files", "-z", "-v")
        + _ask(world, "ls-files", "-z", "-t")
    )
    refs = [*_ask(world, "for-each-ref").splitlines(), _ask(world, "symbolic-ref", "-q", "HEAD")]
    place = world.root / _ask(world, "rev-parse", "--git-path", "index").strip()
    index = inside.get(str(place.relative_to(world.top)), (0, "none"))
    settled = ("config", "hooks", "info", "stash", "index.lock", "MERGE_HEAD", "sparse-checkout", "worktrees")
    rest = {path: value for path, value in inside.items() if _is_settled(path, settled)}
    head, tree = (
        _ask(world, "rev-parse", "-q", "--verify", "HEAD"),
        _ask(world, "rev-parse", "-q", "--verify", "HEAD^{tree}"),
    )
    return Held(files, frozenset(entries.split("\0")), frozenset(refs), rest, index, head, tree)


def _is_settled(path: str, names: Sequence[str]) -> bool:
    return any(name in Path(path).parts or Path(path).name == name for name in names) and not path.endswith(
        ("/index", "/HEAD")
    )


def _ask(world: World, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=world.root, env={**os.environ, **CALM}, capture_output=True, text=True)
    return done.stdout


# --- one trial -------------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A landing over a world, what the developer does next, an undo, and its undo."""

    world: World
    scratch: Path
    commit: bool
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scratch.mkdir(exist_ok=True)
        self.journal = Journal(self.scratch)

    def run(self, activity: Activity | None, *, partly: bool) -> None:
        """Go through it all, comparing at each step."""
        before = look(self.world)
        landed = self._land(before)
        if landed is None:
            return
        changes, commit = landed
        if activity is not None:
            activity(self.world)
            self.told.append(activity.__name__)
        undone = self._undo(changes, commit, partly=partly, before=before if activity is None else None)
        _edits_kept(self.world, activity)
        if undone is None or activity is not None:
            return
        steps, undo_commit = undone
        self._redo(changes, steps, undo_commit, before)

    def _land(self, before: Held) -> tuple[list[FileChange], str] | None:
        try:
            changes = changes_for(self.world)
            place = find_place(changes) if self.commit else None
            commit = carry_out(changes, self.journal, {}, place, "Land\n\nwith figures\n")
        except LandingRefused as refused:
            self.told.append(f"refused: {self._anywhere(refused)}")
            _expect(refused.where and refused.next_step, "a refusal says where and what next")
            _same(before, look(self.world))
            return None
        self.journal.end()
        self.told.append("committed" if commit else "landed")
        after = look(self.world)
        _only(before, after, self.world, [change.path for change in changes])
        _kept(before, after, self._keys(changes), commit.new if commit else "")
        if commit:
            _expect(_clean(self.world, self._keys(changes)), "what was committed is clean")
            changed = _ask(self.world, "diff-tree", "-r", "-z", "--name-only", "--no-commit-id", "--root", commit.new)
            _expect(set(changed.split("\0")) - {""} == set(self._keys(changes)), "the commit holds what landed")
            parents = _ask(self.world, "rev-list", "--parents", "-n1", commit.new).split()[1:]
            _expect(parents == before.head.split(), "the commit follows the one before")
        return changes, commit.new if commit else ""

    def _undo(
        self, changes: list[FileChange], commit: str, *, partly: bool, before: Held | None
    ) -> tuple[list[FileChange], str] | None:
        held = look(self.world)
        try:
            steps = take_back(changes, self.world.root, NAME, partly=partly)
            todo = [step.change for step in steps if step.change is not None]
            place, notes = place_of_undo(commit, todo, exact=all(step.exact for step in steps))
            done = carry_out(todo, self.journal, {}, place, "Take back\n")
        except LandingRefused as refused:
            _expect(before is None, f"an undo right after the landing is possible: {refused}")
            self.told.append(f"undo refused: {self._anywhere(refused)}")
            _same(held, look(self.world))
            return None
        self.journal.end()
        self.told.append("undone by a commit" if done else "undone")
        after = look(self.world)
        _only(held, after, self.world, [change.path for change in todo])
        _kept(held, after, self._keys(todo), done.new if done else "")
        if before is not None:
            _expect(after.files == before.files, "every file is as it was")
            if commit:
                _expect(done is not None, f"a commit takes a commit back: {notes}")
                _expect(after.tree == before.tree, "the last commit holds what it held before")
                _expect(after.entries == before.entries, "the index holds what it held before")
        return todo, done.new if done else ""

    def _redo(self, changes: list[FileChange], undone: list[FileChange], commit: str, before: Held) -> None:
        again = [change.inverse() for change in undone]
        held = look(self.world)
        place, _ = place_of_undo(commit, again, exact=True)
        done = carry_out(again, self.journal, {}, place, "Again\n")
        self.journal.end()
        after = look(self.world)
        _kept(held, after, self._keys(again), done.new if done else "")
        _expect(all(_content(change.path) == change.after for change in changes), "a redo lands all again")
        self._undo(changes, done.new if done else "", partly=False, before=before)

    def _anywhere(self, refused: LandingRefused) -> str:
        return refused.what.replace(str(self.world.root), "").replace(str(self.world.top), "")

    def _keys(self, changes: Sequence[FileChange]) -> list[str]:
        return [change.path.relative_to(self.world.root).as_posix() for change in changes]


def changes_for(world: World) -> list[FileChange]:
    """What a landing of a small module writes: its file, a folder with a folder in it, and the index of landings."""
    from agent.landing.write import read

    before = read(world.module) or b""
    folder = world.module.parent / "blocks_kernels"
    return [
        FileChange(world.module, before, before.replace(b"x * 2 + 1", b"fused(x)").replace(b"X * 2 + 1", b"FUSED(X)")),
        FileChange(folder / "__init__.py", None, b"def fused(x): ...\n"),
        FileChange(folder / "fused.cpp", None, b"int fused() { return 0; }\n"),
        FileChange(folder / "common/types/half.h", None, b"\xff\x00binary"),
        *noted(world.root, NAME, LINES),
    ]


# --- what the developer does in between ------------------------------------------------------------------------------

Activity = Callable[[World], None]
MARK = b"# the developer's own\n"


def commits_elsewhere(world: World) -> None:
    (world.root / "later.txt").write_bytes(MARK)
    if world.has_git:
        _dev(world, "add", "-f", "later.txt")
        _dev(world, "commit", "-q", "--no-verify", "-m", "later", "--", "later.txt")


def edits_module_elsewhere(world: World) -> None:
    world.module.write_bytes(world.module.read_bytes() + MARK)


def edits_module_there(world: World) -> None:
    landed = world.module.read_bytes()
    for call in (b"fused(x)", b"FUSED(X)"):
        landed = landed.replace(call, call + b"  " + MARK.strip())
    world.module.write_bytes(landed)


def edits_a_kernel(world: World) -> None:
    (world.module.parent / "blocks_kernels/fused.cpp").write_bytes(MARK)


def adds_beside_the_kernels(world: World) -> None:
    (world.module.parent / "blocks_kernels/mine.txt").write_bytes(MARK)


def commits_an_edit(world: World) -> None:
    edits_module_elsewhere(world)
    if world.has_git:
        _dev(world, "commit", "-q", "--no-verify", "-m", "edit", "--", "pkg/blocks.py")


def another_lands(world: World) -> None:
    for change in noted(world.root, "b.py:B", ['"b.py:B".file = "b.py"']):
        if change.after is not None:
            change.path.write_bytes(change.after)


def stages_an_edit(world: World) -> None:
    edits_module_elsewhere(world)
    if world.has_git:
        _dev(world, "add", "pkg/blocks.py")


def goes_back(world: World) -> None:
    """Moves the branch back to before the landing, the files left as they are."""
    if world.has_git:
        _dev(world, "reset", "-q", "--soft", "HEAD~1")


def removes_the_module(world: World) -> None:
    world.module.unlink()


ACTIVITIES: list[Activity] = [
    *(commits_elsewhere, edits_module_elsewhere, edits_module_there, edits_a_kernel, adds_beside_the_kernels),
    *(commits_an_edit, another_lands, stages_an_edit, goes_back, removes_the_module),
]


def _dev(world: World, *command: str) -> None:
    """Let the developer do something that may fail in this state."""
    who = {f"GIT_{who}_{what}": "dev@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    plain = ["git", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", *command]
    subprocess.run(plain, cwd=world.root, env={**os.environ, **CALM, **who}, capture_output=True)


# --- comparing -------------------------------------------------------------------------------------------------------


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise Lost(f"not so: {what}")


def _same(before: Held, after: Held) -> None:
    _expect(before == after, f"nothing changed; {_difference(before, after)}")


def _only(before: Held, after: Held, world: World, paths: Sequence[Path]) -> None:
    """Files: only those that were written, and the folders that came and went with them."""
    names = {str(path.relative_to(world.top)) for path in paths}
    above = {str(parent) for name in names for parent in Path(name).parents}
    touched = {path for path in {*before.files, *after.files} if before.files.get(path) != after.files.get(path)}
    folders = {
        path for path in touched if path in above and (before.files.get(path) is None or after.files.get(path) is None)
    }
    _expect(touched - folders <= names, f"only what is written changes: {sorted(touched - folders - names)}")
    modes = {n for n in names if n in before.files and n in after.files and before.files[n][0] != after.files[n][0]}
    _expect(not modes, f"modes are kept: {modes}")


def _kept(before: Held, after: Held, keys: Sequence[str], commit: str) -> None:
    """What git holds: nothing changes but, for a commit, its branch and the entries of its files."""
    _expect(
        before.rest == after.rest,
        f"config, hooks, stash and locks are as they were: {_keys_of(before.rest, after.rest)}",
    )
    if not commit:
        _expect(before.entries == after.entries, "the index is as it was")
        _expect(before.index == after.index, "no byte of the index changes")
        _expect(before.refs == after.refs, "the refs are as they were")
        return
    changed = before.entries ^ after.entries
    others = {each for each in changed if not any(each.endswith(f"\t{key}") or each[2:] == key for key in keys)}
    _expect(not others, f"no other entry of the index changes: {others}")
    moved = before.refs ^ after.refs
    _expect(all(before.head.strip() in ref or commit in ref for ref in moved), f"only the branch moves: {moved}")
    _expect(after.head.strip() == commit, "the branch has the commit")


def _edits_kept(world: World, activity: Activity | None) -> None:
    """What the developer wrote in between is where they wrote it."""
    module, folder = world.module, world.module.parent / "blocks_kernels"
    if activity in (edits_module_elsewhere, edits_module_there, commits_an_edit, stages_an_edit):
        _expect(MARK.strip() in module.read_bytes(), "an edit of the module is kept")
    places = {
        commits_elsewhere: world.root / "later.txt",
        adds_beside_the_kernels: folder / "mine.txt",
        edits_a_kernel: folder / "fused.cpp",
    }
    if activity in places:
        _expect(places[activity].read_bytes() == MARK, "a file of theirs is kept")
    if activity is another_lands:
        _expect(b'"b.py:B".file' in (world.root / ".warpsmith/landed.toml").read_bytes(), "another's landing is kept")
    if activity is removes_the_module:
        _expect(not module.exists(), "what they removed does not come back")


def _clean(world: World, keys: Sequence[str]) -> bool:
    told = _ask(world, "--literal-pathspecs", "status", "--porcelain", "-z", "-uall", "--", *keys)
    stale = _ask(world, "--literal-pathspecs", "diff-files", "--name-only", "--", *keys)
    return not told and not stale


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _keys_of(one: dict[str, tuple[int, str]], other: dict[str, tuple[int, str]]) -> list[str]:
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))


def _difference(before: Held, after: Held) -> str:
    changed = _keys_of(before.files, after.files) + _keys_of(before.rest, after.rest)
    return f"{changed} {before.entries ^ after.entries} {before.refs ^ after.refs}"


# --- running ---------------------------------------------------------------------------------------------------------


def trial(seed: int, folder: Path) -> list[str]:
    """Run the trial of a seed in an empty folder; returns what happened. Raises :class:`Lost`."""
    world = draw(seed, folder / "top")
    chance = random.Random(f"{seed} deeds")
    commit, partly = chance.random() < 0.7, chance.random() < 0.5
    activity = chance.choice(ACTIVITIES) if chance.random() < 0.5 else None
    one = Trial(world, folder / "scratch", commit)
    try:
        one.run(activity, partly=partly)
        _expect(not (world.top / "hook-ran").exists(), "no hook ran")
    except Exception as error:
        raise Lost(f"seed {seed}: {error!r}\n  {world.traits}\n  {one.told}") from error
    return one.told


def main() -> int:
    """Run trials and tell what they came to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=None, help="only this one")
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args()
    os.environ.update(CALM)
    seeds = [options.seed] if options.seed is not None else range(options.start, options.start + options.count)
    end, outcomes, lost = time.monotonic() + options.minutes * 60, Counter[str](), 0
    for seed in seeds:
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory(prefix="warpsmith-states-") as folder:
            try:
                outcomes.update(trial(seed, Path(folder)))
            except Lost as error:
                lost += 1
                print(error, file=sys.stderr, flush=True)
        outcomes["trials"] += 1
    for what, count in outcomes.most_common():
        print(f"{count:6}  {what}")
    print(f"{lost} lost something")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
