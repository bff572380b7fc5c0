"""A developer's folder in a state that a seed decides: its repository, or none, and what lies there."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.agent.landing import repositories
from tests.agent.landing.repositories import MODULE

CALM = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
"""Keeps the settings of whoever tests away, and git from refreshing an index that is looked at."""


def git(folder: Path, *command: str) -> str:
    """Make a state, without hooks and signatures, whatever was drawn."""
    return repositories.git(folder, "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", *command)


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
