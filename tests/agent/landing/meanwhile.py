"""What a developer does between a landing and its undo."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from agent.landing.index import noted
from tests.agent.landing.held import expect
from tests.agent.landing.worlds import CALM, World

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


def expect_edits(world: World, activity: Activity | None) -> None:
    """What the developer wrote in between is where they wrote it."""
    module, folder = world.module, world.module.parent / "blocks_kernels"
    if activity in (edits_module_elsewhere, edits_module_there, commits_an_edit, stages_an_edit):
        expect(MARK.strip() in module.read_bytes(), "an edit of the module is kept")
    places = {
        commits_elsewhere: world.root / "later.txt",
        adds_beside_the_kernels: folder / "mine.txt",
        edits_a_kernel: folder / "fused.cpp",
    }
    if activity in places:
        expect(places[activity].read_bytes() == MARK, "a file of theirs is kept")
    if activity is another_lands:
        expect(b'"b.py:B".file' in (world.root / ".warpsmith/landed.toml").read_bytes(), "another's landing is kept")
    if activity is removes_the_module:
        expect(not module.exists(), "what they removed does not come back")
