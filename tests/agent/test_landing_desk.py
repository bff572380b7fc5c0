"""Landings that are cut off: by a kill between writing and storing, or by a disk that does not take the event."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import replace

import pytest

from agent import events as ev
from agent.landing import FileChange
from agent.landing.commit import Commit, find_place
from agent.landing_desk import LandingDesk, _refused, refusal, told_untimed
from agent.state import SessionState
from agent.store import SessionWriter, read_events
from agent.stream import Stream
from sandbox.errors import EnvironmentFault, LandingRefused
from tests.agent.landing.repositories import git
from tests.agent.landing.worlds import CALM
from tests.agent.support import make_spec, make_verdict
from tests.agent.test_end_to_end import CANDIDATE, FILE, KERNEL


@pytest.mark.parametrize(("reward", "nobody_looks"), [(3, True), (2, True), (1, False), (None, False)])
def test_without_a_developers_word_only_what_is_seen_to_be_faster_as_it_lands_does(reward, nobody_looks):
    judged = make_verdict(tier="full", reward=reward)
    assert refusal(judged, faster=False) == ""
    assert (refusal(judged, faster=True) == "") == nobody_looks


def test_what_is_wrong_in_the_form_in_which_it_lands_lands_on_nobodys_word():
    wrong = make_verdict(ok=False, tier="full", reward=-1)
    assert "not correct" in refusal(wrong, faster=False)
    assert "not correct" in refusal(wrong, faster=True)


@pytest.fixture
def desk(tmp_path):
    """A desk over an empty session; landings below are written by it directly, so it needs no judge."""
    stream = Stream(SessionWriter(tmp_path), os.open(os.devnull, os.O_WRONLY), SessionState())
    yield LandingDesk(make_spec(tmp_path), stream, judging=None)
    stream.writer.close()


@pytest.fixture
def landing(desk, tmp_path):
    """A landing of two files, as changes and as the event that stores it."""
    target, kernel = tmp_path / "project" / "shifted.py", tmp_path / "project" / "shifted_kernels" / "a.cpp"
    changes = [FileChange(target, target.read_bytes(), b"landed"), FileChange(kernel, None, b"// kernel", 0o644)]
    stream = desk._stream
    files = [
        {
            "path": str(change.path),
            "before": stream.blob(change.before) if change.before is not None else None,
            "after": stream.blob(change.after),
            "mode": change.mode,
        }
        for change in changes
    ]
    return changes, ev.Landed(landing=1, attempt=1, files=files, partial=False, verdict={})


def test_a_landing_whose_event_was_never_stored_is_taken_back(desk, landing, tmp_path):
    changes, landed = landing
    desk._write(changes, landed)
    cut_off = SessionState()
    desk._stream.state = cut_off
    desk._journal.begin(changes, ev.to_json(landed))
    desk.recover()
    assert changes[0].path.read_bytes() == changes[0].before
    assert not changes[1].path.parent.exists()
    assert isinstance(list(read_events(tmp_path))[-1].event, ev.LandingRefusedEvent)
    assert desk._journal.pending() is None


def test_a_landing_that_was_stored_stands_although_its_journal_was_left(desk, landing):
    changes, landed = landing
    desk._write(changes, landed)
    assert desk._journal.pending() is None
    desk._journal.begin(changes, ev.to_json(landed))
    desk.recover()
    assert changes[0].path.read_bytes() == b"landed"
    assert desk._journal.pending() is None


def test_a_landing_that_cannot_be_stored_is_taken_back_at_once(desk, landing):
    changes, landed = landing
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    desk._stream.emit(ev.Steered(text="x" * 15_000))
    long = ev.Landed(landing=1, attempt=1, files=landed.files, partial=False, verdict={"padding": "x" * 10_000})
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(EnvironmentFault):
            desk._write(changes, long)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert changes[0].path.read_bytes() == changes[0].before
    assert not changes[1].path.exists()


async def test_undoing_says_what_became_of_each_file(desk, landing):
    changes, landed = landing
    desk._write(changes, landed)
    await desk.undo(1)
    undone = desk._stream.state.undone
    assert set(undone) == {1}
    assert changes[0].path.read_bytes() == changes[0].before
    stored = list(read_events(desk._stream.writer.folder))[-1].event
    assert {entry["path"]: entry["outcome"] for entry in stored.files} == {
        str(changes[0].path): "restored",
        str(changes[1].path): "removed",
    }


def commits(project):
    return int(git(project, "rev-list", "--count", "HEAD"))


@pytest.fixture
def committed(desk, landing, tmp_path, monkeypatch):
    """The landing as one commit in the developer's repository."""
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)
    project = tmp_path / "project"
    git(project, "init", "-q", "-b", "main")
    for key, value in (("user.name", "D"), ("user.email", "d@e")):
        git(project, "config", key, value)
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "start")
    changes, landed = landing
    desk._write(changes, landed, find_place(changes), "Land\n")
    return project


async def test_a_committed_landing_is_undone_and_landed_again_by_commits(desk, committed):
    state = desk._stream.state
    assert state.landings[1].commit == git(committed, "rev-parse", "HEAD").strip()
    await desk.undo(1)
    assert state.undone[1].commit == git(committed, "rev-parse", "HEAD").strip()
    assert git(committed, "diff", "--stat", "HEAD~2", "HEAD") == ""
    await desk.redo(1)
    assert state.landings_standing == [2]
    assert (state.landings[2].commit, commits(committed)) == (git(committed, "rev-parse", "HEAD").strip(), 4)
    assert git(committed, "diff", "--stat", "HEAD~2", "HEAD") == ""
    assert git(committed, "status", "--porcelain") == ""
    await desk.undo(2)
    assert git(committed, "status", "--porcelain") == ""


async def test_a_landing_that_they_committed_is_undone_by_a_commit_where_one_is_wanted(desk, committed):
    state = desk._stream.state
    state.landings[1] = replace(state.landings[1], commit="")
    await desk.undo(1, commit=True)
    assert state.undone[1].commit == git(committed, "rev-parse", "HEAD").strip()
    assert state.landings_standing == []
    assert git(committed, "diff", "--stat", "HEAD~2", "HEAD") == git(committed, "status", "--porcelain") == ""


async def test_an_undo_over_edits_is_refused_unless_a_part_is_wanted(desk, committed, landing):
    changes, _ = landing
    changes[1].path.write_bytes(b"mine")
    with pytest.raises(LandingRefused, match=r"a\.cpp"):
        await desk.undo(1)
    assert changes[0].path.read_bytes() == b"landed"
    await desk.undo(1, partly=True)
    assert (changes[0].path.read_bytes(), changes[1].path.read_bytes()) == (changes[0].before, b"mine")
    assert commits(committed) == 2
    assert "no commit made: files were edited since" in desk._stream.state.undone[1].notes[0]
    with pytest.raises(LandingRefused, match="was not undone"):
        await desk.redo(7)


async def test_a_redo_over_edits_is_refused(desk, landing):
    changes, landed = landing
    desk._write(changes, landed)
    await desk.undo(1)
    changes[0].path.write_bytes(b"mine")
    with pytest.raises(LandingRefused, match="has changed"):
        await desk.redo(1)
    assert changes[0].path.read_bytes() == b"mine"
    assert not changes[1].path.exists()
    assert desk._stream.state.landings_standing == []


def test_a_commit_that_no_engine_lived_to_store_is_stored_by_the_next(desk, landing, committed):
    changes, landed = landing
    desk._stream.state = SessionState()
    commit = Commit(str(committed), "refs/heads/main", *git(committed, "rev-parse", "HEAD~1", "HEAD").split(), "copy")
    desk._journal.begin(changes, ev.to_json(landed))
    desk._journal.built(commit)
    desk.recover()
    assert desk._stream.state.landings[1].commit == commit.new
    assert changes[0].path.read_bytes() == b"landed"
    assert desk._journal.pending() is None


class BusyJudge:
    """A judge of the landed form whose first verdicts were disturbed."""

    def __init__(self, busy: int) -> None:
        self.asked, self._busy = 0, busy

    async def original(self):
        return {"signature": ["x: float32 [32, 256] contiguous", "scale: float32 [256] contiguous"]}

    async def landed(self, *_):
        self.asked += 1
        calm = make_verdict(tier="full")
        profile = replace(calm.profile, disturbed="others ran")
        return replace(calm, reward=None, profile=profile) if self.asked <= self._busy else calm


@pytest.mark.parametrize(("busy", "asked", "reward"), [(0, 1, 3), (1, 2, 3), (9, 3, None)])
async def test_what_lands_is_judged_again_while_the_machine_is_busy_and_no_longer(desk, busy, asked, reward):
    desk._judging = BusyJudge(busy)
    verdict = await desk._judged_as_it_lands({}, {})
    assert (desk._judging.asked, verdict.reward) == (asked, reward)
    assert bool(told_untimed(verdict)) == (reward is None)
    if reward is None:
        refused = desk._busy(verdict, 1)
        assert "machine was busy" in refused.what
        assert "nothing was written" in refused.what
        assert "warpsmith sessions land" in refused.next_step


@pytest.fixture
def judged(desk, tmp_path):
    """A desk whose session holds an attempt that was judged in full, the project's folder, and the attempt."""
    desk._judging = BusyJudge(9)
    stream, project = desk._stream, tmp_path / "project"
    original = {"shifted.py": stream.blob((project / "shifted.py").read_bytes())}
    files = {"shifted.py": stream.blob(CANDIDATE.encode()), FILE: stream.blob(KERNEL.encode())}
    stream.emit(ev.SessionStarted(task=desk._spec.to_json(), model="", device="cpu", versions={}, files=original))
    stream.emit(ev.Attempt(attempt=1, files=files, verdict=make_verdict(tier="full").to_json()))
    return desk, project


async def test_what_could_not_be_timed_lands_where_that_is_enough_and_is_said(judged):
    desk, project = judged
    with pytest.raises(LandingRefused, match="busy 3 times over") as refused:
        await desk.land(1, faster=True)
    assert "--untimed" in refused.value.next_step
    assert desk._judging.asked == 3
    await desk.land(1, faster=True, untimed=True)
    assert desk._judging.asked == 4
    assert "how fast it is was not measured" in desk._stream.state.landings[1].notes[0]
    assert b"@landed" in (project / "shifted.py").read_bytes()


async def test_where_it_would_go_is_looked_at_before_anything_is_judged(judged):
    desk, project = judged
    with pytest.raises(LandingRefused, match="no git repository"):
        await desk.land(1, commit=True)
    (project / "shifted_kernels").mkdir()
    (project / "shifted_kernels" / "mine.txt").write_text("mine")
    with pytest.raises(LandingRefused, match=r"mine\.txt is not"):
        await desk.land(1)
    assert desk._judging.asked == 0


def test_more_can_be_accepted_only_of_what_was_rejected_in_part():
    slow = make_verdict(tier="full", reward=1)
    assert "Accept more" not in _refused("It is not faster", slow, 1, partial=False).next_step
    assert "Accept more" in _refused("It is not faster", slow, 1, partial=True).next_step
