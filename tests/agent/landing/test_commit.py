"""A landing as one commit: its files and nothing else, the developer's index and work as they were, or a reason why not."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.landing.change import FileChange
from agent.landing.commit import find_place
from agent.landing.deed import Journal, carry_out
from agent.landing.taking_back import place_of_undo
from agent.landing.undo import steps_back
from sandbox.errors import LandingRefused
from tests.agent.landing import mortal, repositories
from tests.agent.landing.mortal import changes_for, held, killed, make, prepared, settled, steps_of
from tests.agent.landing.repositories import MODULE, git, picture
from tests.agent.landing.worlds import CALM


@pytest.fixture(autouse=True)
def no_settings_of_whoever_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)


def land(changes: list[FileChange], folder: Path, message: str = "Land\n\nwith figures\n") -> str:
    journal = Journal(folder)
    commit = carry_out(changes, journal, {}, find_place(changes), message)
    journal.end()
    assert commit is not None
    return commit.new


def test_the_commit_holds_what_landed_and_staged_work_stays(tmp_path: Path) -> None:
    root = tmp_path / "project"
    changes = changes_for(make(root))
    staged = git(root, "diff", "--cached", "--", "new.txt", "pkg/other.py")
    commit = land(changes, tmp_path)
    assert git(root, "diff-tree", "-r", "--name-only", "--no-commit-id", commit).split() == [
        *("pkg/blocks.py", "pkg/blocks_kernels/__init__.py", "pkg/blocks_kernels/fused.cpp"),
    ]
    assert git(root, "log", "-1", "--format=%an %ae|%cn|%B").startswith(
        "Dev Eloper dev@example.org|Dev Eloper|Land\n\nwith"
    )
    assert git(root, "reflog", "-1", "--format=%gs", "main") == "commit: Land\n"
    assert git(root, "diff", "--cached", "--", "new.txt", "pkg/other.py") == staged
    assert git(root, "diff", "--cached", "--name-only").split() == ["new.txt", "pkg/other.py"]
    assert git(root, "diff-files", "--name-only").split() == ["pkg/other.py"], "what was committed needs no second look"


def test_an_undo_is_a_commit_that_takes_it_back(tmp_path: Path) -> None:
    root = tmp_path / "project"
    changes = changes_for(make(root))
    before = picture(root / "pkg"), git(root, "ls-files", "--stage"), git(root, "rev-parse", "HEAD^{tree}")
    commit = land(changes, tmp_path)
    back = [step.change for step in steps_back(changes) if step.change is not None]
    place, notes = place_of_undo(commit, back, exact=True)
    assert (place is None, notes) == (False, [])
    carry_out(back, Journal(tmp_path), {}, place, "Back\n")
    assert (picture(root / "pkg"), git(root, "ls-files", "--stage"), git(root, "rev-parse", "HEAD^{tree}")) == before
    assert git(root, "rev-list", "--count", "HEAD") == "3\n"


def test_an_undo_makes_no_commit_where_the_branch_has_lost_the_landing(tmp_path: Path) -> None:
    root = tmp_path / "project"
    changes = changes_for(make(root))
    commit = land(changes, tmp_path)
    git(root, "reset", "-q", "--soft", "HEAD~1")
    back = [step.change for step in steps_back(changes) if step.change is not None]
    place, notes = place_of_undo(commit, back, exact=True)
    assert place is None
    assert f"does not have {commit[:9]} any more" in notes[0]


def test_hooks_and_signatures_that_are_left_out_are_named(tmp_path: Path) -> None:
    module = repositories.failing_hooks(tmp_path / "project")
    for key, value in (("user.name", "D"), ("user.email", "d@e"), ("commit.gpgsign", "true")):
        git(module.parent, "config", key, value)
    place = find_place(changes_for(module))
    assert place.notes == (
        "Your hooks do not run (pre-commit, reference-transaction, post-index-change).",
        "It is not signed, although commit.gpgsign is on.",
    )


def _nobody(root: Path) -> None:
    git(root, "config", "--unset", "user.email")


def _edited(root: Path) -> None:
    (root / "pkg/blocks.py").write_bytes(MODULE + b"# mine\n")


def _staged(root: Path) -> None:
    _edited(root)
    git(root, "add", "pkg/blocks.py")
    (root / "pkg/blocks.py").write_bytes(MODULE)


def _merging(root: Path) -> None:
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))


def _rebasing(root: Path) -> None:
    (root / ".git/rebase-merge").mkdir()


def _ignored(root: Path) -> None:
    (root / ".gitignore").write_text("*.cpp\n")


def _hidden(root: Path) -> None:
    git(root, "update-index", "--assume-unchanged", "pkg/blocks.py")


def _untracked(root: Path) -> None:
    git(root, "rm", "-q", "--cached", "pkg/blocks.py")
    git(root, "commit", "-q", "-m", "without")


def _bare(root: Path) -> None:
    subprocess.run(["rm", "-rf", str(root / ".git")], check=True)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_nobody, "who you are"),
        (_edited, "has changes of yours that are not committed"),
        (_staged, "has changes of yours that are not committed"),
        (_merging, "in the middle of a merge"),
        (_rebasing, "in the middle of a rebase"),
        (_ignored, "fused.cpp is ignored"),
        (_hidden, "is marked assume-unchanged"),
        (_untracked, "has never been committed"),
        (_bare, "no git repository"),
    ],
)
def test_where_there_can_be_no_commit_the_reason_is_said_and_nothing_changes(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    root = tmp_path / "project"
    module = make(root)
    spoil(root)
    before = picture(root)
    with pytest.raises(LandingRefused) as caught:
        find_place(changes_for(module))
    assert said in caught.value.what
    assert caught.value.where
    assert "working tree only" in caught.value.next_step
    assert picture(root) == before


def _locked(root: Path) -> None:
    (root / ".git/index.lock").write_bytes(b"another's")


def _moved(root: Path) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "meanwhile")


def _switched(root: Path) -> None:
    git(root, "symbolic-ref", "HEAD", "refs/heads/other")
    git(root, "update-ref", "refs/heads/other", "main")


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [(_locked, "another git command holds"), (_moved, "cannot lock ref"), (_switched, "another branch")],
)
def test_what_happens_meanwhile_leaves_everything_to_the_developer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Path], None], said: str
) -> None:
    """The branch moves, another is checked out or the index is locked after the landing was prepared."""
    monkeypatch.setattr("agent.landing.index_swap.PATIENCE_SECONDS", 0.2)
    root = tmp_path / "project"
    changes = changes_for(make(root))
    place = find_place(changes)
    meanwhile(root)
    before = held(root)
    with pytest.raises(LandingRefused, match=said):
        carry_out(changes, Journal(tmp_path), {}, place, "Land\n")
    assert held(root) == before
    assert Journal(tmp_path).pending() is None


@pytest.mark.parametrize(("pattern", "fits"), [("pkg", True), ("elsewhere", False)])
def test_a_sparse_checkout_has_to_hold_what_lands(tmp_path: Path, pattern: str, fits: bool) -> None:
    root = tmp_path / "project"
    module = make(root)
    git(root, "commit", "-q", "-a", "-m", "all")
    git(root, "sparse-checkout", "set", "--no-cone", "/pkg/blocks.py", f"/{pattern}/")
    changes = changes_for(module)
    before = held(root)
    if fits:
        land(changes, tmp_path)
        git(root, "sparse-checkout", "reapply")
        assert all(change.path.read_bytes() == change.after for change in changes)
    else:
        with pytest.raises(LandingRefused, match="outside your sparse checkout"):
            land(changes, tmp_path)
        assert held(root) == before


TELLING = ("pkg/.blocks.py.landing", "write-tree", "os.link", "update-ref", "index.lock", "os.remove")
"""In the names of steps before which a kill would do the most harm, the last such step each."""


@pytest.mark.parametrize("deed", mortal.DEEDS)
def test_killed_before_a_telling_step_the_next_start_completes_it_or_takes_it_back(tmp_path: Path, deed: str) -> None:
    """``python -m tests.agent.landing.mortal`` kills before every step."""
    root, changes, journal, _ = prepared(tmp_path / "steps", deed)
    steps = steps_of(root, changes, journal)
    chosen = sorted({max(n for n, step in enumerate(steps) if part in step) for part in TELLING})
    came_to = set()
    for number in chosen:
        root, changes, journal, commits = prepared(tmp_path / str(number), deed)
        before = held(root)
        assert killed(root, changes, journal, number)
        came_to.add(settled(root, journal, before, commits))
    assert came_to == {"completed", "taken back"}


def test_a_file_edited_while_it_is_committed_is_not_committed(tmp_path: Path) -> None:
    """A filter of the developer's, which git runs on the way, stands for whoever edits at that moment."""
    root = tmp_path / "project"
    module = make(root)
    changes = changes_for(module)
    (root / ".gitattributes").write_text("*.cpp filter=late\n")
    git(root, "config", "filter.late.clean", f"sh -c 'cat; echo \"# mine\" >> {module}'")
    place = find_place(changes)
    with pytest.raises(LandingRefused, match="edited while it was being committed"):
        carry_out(changes, Journal(tmp_path), {}, place, "Land\n")
    assert module.read_bytes() == MODULE + b"# mine\n" * module.read_bytes().count(b"# mine\n")
    assert b"# mine" in module.read_bytes()
    assert git(root, "rev-list", "--count", "HEAD") == "1\n"


def test_a_repository_that_cannot_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes into read-only folders")
    root = tmp_path / "project"
    changes = changes_for(make(root))
    objects = [root / ".git", *(path for path in (root / ".git").rglob("*") if path.is_dir())]
    for folder in objects:
        folder.chmod(0o555)
    before = held(root)
    try:
        with pytest.raises(LandingRefused, match="could not be committed"):
            land(changes, tmp_path)
        assert held(root) == before
    finally:
        for folder in objects:
            folder.chmod(0o755)


@pytest.mark.parametrize("kilobytes", [200, 220, 240, 250, 260])
def test_a_disk_that_fills_up_on_the_way_leaves_everything_as_it_was(tmp_path: Path, kilobytes: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        changes = changes_for(make(disk / "project"))
        changes.append(FileChange(changes[1].path.with_name("large.cpp"), None, bytes(range(256)) * 120))
        before = held(disk / "project")
        with contextlib.suppress(LandingRefused):
            land(changes, tmp_path)
        committed = git(disk / "project", "rev-list", "--count", "HEAD") == "2\n"
        assert committed or held(disk / "project") == before
        assert not committed or all(change.path.read_bytes() == change.after for change in changes)
        assert Journal(tmp_path).pending() is None
    finally:
        subprocess.run(["umount", str(disk)], check=True)
