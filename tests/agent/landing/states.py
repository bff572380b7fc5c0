"""Landings and undos over repositories in every state, held against a full picture of what is the developer's.

    python -m tests.agent.landing.states --count 1000        # or --minutes 10; --seed N for one of them

A seed decides the state, what is done, and what the developer does in between. Whatever happens, no byte of theirs may be
lost: files, index entries with their flags, refs, stash, config and hooks are compared before and after each deed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.commit import find_place
from agent.landing.deed import Journal, carry_out
from agent.landing.index import noted
from agent.landing.taking_back import place_of_undo, take_back
from agent.landing.write import read
from sandbox.errors import LandingRefused
from tests.agent.landing.held import Held, Lost, ask, clean, content, expect, kept, look, only, same
from tests.agent.landing.meanwhile import ACTIVITIES, Activity, expect_edits
from tests.agent.landing.worlds import CALM, World, draw

NAME = "pkg/blocks.py:Block"
LINES = [f'"{NAME}".class_name = "Block"', f'"{NAME}".file = "pkg/blocks.py"']


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
        expect_edits(self.world, activity)
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
            expect(refused.where and refused.next_step, "a refusal says where and what next")
            same(before, look(self.world))
            return None
        self.journal.end()
        self.told.append("committed" if commit else "landed")
        after = look(self.world)
        only(before, after, self.world, [change.path for change in changes])
        kept(before, after, self._keys(changes), commit.new if commit else "")
        if commit:
            expect(clean(self.world, self._keys(changes)), "what was committed is clean")
            changed = ask(self.world, "diff-tree", "-r", "-z", "--name-only", "--no-commit-id", "--root", commit.new)
            expect(set(changed.split("\0")) - {""} == set(self._keys(changes)), "the commit holds what landed")
            parents = ask(self.world, "rev-list", "--parents", "-n1", commit.new).split()[1:]
            expect(parents == before.head.split(), "the commit follows the one before")
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
            expect(before is None, f"an undo right after the landing is possible: {refused}")
            self.told.append(f"undo refused: {self._anywhere(refused)}")
            same(held, look(self.world))
            return None
        self.journal.end()
        self.told.append("undone by a commit" if done else "undone")
        after = look(self.world)
        only(held, after, self.world, [change.path for change in todo])
        kept(held, after, self._keys(todo), done.new if done else "")
        if before is not None:
            expect(after.files == before.files, "every file is as it was")
            if commit:
                expect(done is not None, f"a commit takes a commit back: {notes}")
                expect(after.tree == before.tree, "the last commit holds what it held before")
                expect(after.entries == before.entries, "the index holds what it held before")
        return todo, done.new if done else ""

    def _redo(self, changes: list[FileChange], undone: list[FileChange], commit: str, before: Held) -> None:
        again = [change.inverse() for change in undone]
        held = look(self.world)
        place, _ = place_of_undo(commit, again, exact=True)
        done = carry_out(again, self.journal, {}, place, "Again\n")
        self.journal.end()
        after = look(self.world)
        kept(held, after, self._keys(again), done.new if done else "")
        expect(all(content(change.path) == change.after for change in changes), "a redo lands all again")
        self._undo(changes, done.new if done else "", partly=False, before=before)

    def _anywhere(self, refused: LandingRefused) -> str:
        return refused.what.replace(str(self.world.root), "").replace(str(self.world.top), "")

    def _keys(self, changes: Sequence[FileChange]) -> list[str]:
        return [change.path.relative_to(self.world.root).as_posix() for change in changes]


def changes_for(world: World) -> list[FileChange]:
    """What a landing of a small module writes: its file, a folder with a folder in it, and the index of landings."""
    before = read(world.module) or b""
    folder = world.module.parent / "blocks_kernels"
    return [
        FileChange(world.module, before, before.replace(b"x * 2 + 1", b"fused(x)").replace(b"X * 2 + 1", b"FUSED(X)")),
        FileChange(folder / "__init__.py", None, b"def fused(x): ...\n"),
        FileChange(folder / "fused.cpp", None, b"int fused() { return 0; }\n"),
        FileChange(folder / "common/types/half.h", None, b"\xff\x00binary"),
        *noted(world.root, NAME, LINES),
    ]


def trial(seed: int, folder: Path) -> Trial:
    """Run the trial of a seed in an empty folder; returns it. Raises :class:`Lost`."""
    world = draw(seed, folder / "top")
    chance = random.Random(f"{seed} deeds")
    commit, partly = chance.random() < 0.7, chance.random() < 0.5
    activity = chance.choice(ACTIVITIES) if chance.random() < 0.5 else None
    one = Trial(world, folder / "scratch", commit)
    try:
        one.run(activity, partly=partly)
        expect(not (world.top / "hook-ran").exists(), "no hook ran")
    except Exception as error:
        raise Lost(f"seed {seed}: {error!r}\n  {world.traits}\n  {one.told}") from error
    return one


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
                outcomes.update(trial(seed, Path(folder)).told)
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
