"""A landing, committed, in a process that is killed just before a chosen step; and what the next start makes of it.

python -m tests.agent.landing.mortal        # at every step, for the landing and for its undo
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.commit import find_place
from agent.landing.deed import Journal, carry_out, conclude
from agent.landing.undo import steps_back
from agent.store import read_blob  # noqa: F401 - imported before the steps are counted
from tests.agent.landing import repositories
from tests.agent.landing.repositories import git, picture
from tests.agent.landing.worlds import CALM

STEPS = ("os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "subprocess.Popen")
DEEDS = ("land", "undo")


def make(folder: Path) -> Path:
    """A repository with staged, changed and untracked files, ready for a landing; returns the module's file."""
    module = repositories.dirty_index(folder)
    git(folder, "config", "user.name", "Dev Eloper")
    git(folder, "config", "user.email", "dev@example.org")
    return module


def changes_for(module: Path) -> list[FileChange]:
    before = module.read_bytes()
    folder = module.parent / "blocks_kernels"
    return [
        FileChange(module, before, before.replace(b"x * 2 + 1", b"fused(x)")),
        FileChange(folder / "__init__.py", None, b"def fused(x): ...\n"),
        FileChange(folder / "fused.cpp", None, b"int fused() { return 0; }\n"),
    ]


def steps_of(root: Path, changes: Sequence[FileChange], journal: Path) -> list[str]:
    """Do a deed in a child and return the steps it took, each as its event and what it was about."""
    told = journal / "steps"
    _in_child(root, changes, journal, told=told)
    steps = told.read_text().splitlines()
    told.unlink()
    return steps


def killed(root: Path, changes: Sequence[FileChange], journal: Path, step: int) -> bool:
    """Do a deed in a child that dies just before a step, counted from 0; tell whether it died."""
    return _in_child(root, changes, journal, fatal=step) == -signal.SIGKILL


def _in_child(
    root: Path, changes: Sequence[FileChange], journal: Path, fatal: int = -1, told: Path | None = None
) -> int:
    child = os.fork()
    if child == 0:
        try:
            seen: list[str] = []

            def watch(event: str, arguments: tuple[object, ...]) -> None:
                if event in STEPS and (event == "subprocess.Popen" or str(root.parent) in str(arguments)):
                    if len(seen) == fatal:
                        os.kill(os.getpid(), signal.SIGKILL)
                    seen.append(f"{event} {_about(event, arguments)}")

            sys.addaudithook(watch)
            carry_out(changes, Journal(journal), {}, find_place(changes), "Land\n")
            if told is not None:
                told.write_text("\n".join(seen))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked child must not go on in its parent's place
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _about(event: str, arguments: tuple[object, ...]) -> str:
    if event != "subprocess.Popen":
        return str(arguments[0])
    command = arguments[1]
    assert isinstance(command, list | tuple)
    return " ".join(str(each) for each in command if each not in ("git", "-c") and "=" not in str(each))


def settled(root: Path, journal: Path, before: dict[str, object], commits: int) -> str:
    """Settle what a killed process left, and return what it came to; an assertion holds that it is one or the other."""
    kept = Journal(journal)
    deed = kept.pending()
    if deed is None:
        assert held(root) == before, "killed before it was begun"
        return "not begun"
    done = conclude(deed)
    kept.end()
    after = held(root)
    assert not [path for path in after if path.endswith(".lock") or "warpsmith" in path], "nothing of ours is left"
    assert int(git(root, "rev-list", "--count", "HEAD")) == commits + done
    status = git(root, "status", "--porcelain", "-uall")
    assert status == "A  new.txt\nMM pkg/other.py\n?? untracked.txt\n", f"their work is as it was: {status}"
    sides = [change.after if done else change.before for change in deed.changes]
    assert [_content(change.path) for change in deed.changes] == sides, "each file is of one side"
    if not done:
        assert {k: v for k, v in after.items() if k != ".git/index"} == {
            k: v for k, v in before.items() if k != ".git/index"
        }
    return "completed" if done else "taken back"


def held(root: Path) -> dict[str, object]:
    """Everything but git's objects and logs, which may grow."""
    return {
        p: v for p, v in picture(root).items() if not p.startswith((".git/objects", ".git/logs", ".git/COMMIT_EDITMSG"))
    }


def prepared(folder: Path, deed: str) -> tuple[Path, list[FileChange], Path, int]:
    """A repository before a deed: its folder, the changes, where the journal goes, and how many commits there are."""
    root, journal = folder / "project", folder / "journal"
    root.mkdir(parents=True)
    journal.mkdir()
    changes = changes_for(make(root))
    if deed == "undo":
        carry_out(changes, Journal(journal), {}, find_place(changes), "Land\n")
        Journal(journal).end()
        changes = [step.change for step in steps_back(changes) if step.change is not None]
    return root, changes, journal, int(git(root, "rev-list", "--count", "HEAD"))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def main() -> int:
    """Kill at every step of every deed, and tell what each came to."""
    os.environ.update(CALM)
    for deed in DEEDS:
        with tempfile.TemporaryDirectory() as name:
            root, changes, journal, _ = prepared(Path(name), deed)
            steps = steps_of(root, changes, journal)
        for number, step in enumerate(steps):
            with tempfile.TemporaryDirectory() as name:
                root, changes, journal, commits = prepared(Path(name), deed)
                before = held(root)
                assert killed(root, changes, journal, number)
                print(f"{deed} {number:3} {settled(root, journal, before, commits):10}  {step[:110]}", flush=True)
                shutil.rmtree(name, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
