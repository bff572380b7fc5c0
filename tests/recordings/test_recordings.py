"""Bundled recordings are whole sessions that say nothing of the machine they were made on, and replay."""

import warnings
from pathlib import Path

import pytest

from agent import events as ev
from agent.headless import run
from agent.replay import RECORDINGS
from agent.session import open_session
from agent.settings import Settings
from agent.store import read_blob, read_events
from app.demo_project import DEMO_TARGET, copy_project
from sandbox.errors import ExitCode
from sandbox.target import resolve_target
from sandbox.verdict import Verdict
from tests.recordings.__main__ import SCRIPTS

BUNDLED = sorted(path.parent for path in RECORDINGS.glob("*/session.json"))
PARTS = ("build", "guard", "verify", "profile")


def events(folder: Path) -> list[ev.Event]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [stored.event for stored in read_events(folder)]


def passed(verdict: dict) -> list[bool | None]:
    """Whether each part passed, null for what did not run."""
    return [None if verdict[part] is None else verdict[part].get("ok", True) for part in PARTS]


def attempts(folder: Path) -> list[ev.Attempt]:
    return [event for event in events(folder) if isinstance(event, ev.Attempt)]


def test_the_demo_is_bundled():
    assert "demo-cpu" in [folder.name for folder in BUNDLED]


@pytest.mark.parametrize("folder", BUNDLED, ids=lambda path: path.name)
class TestBundled:
    def test_it_is_a_session_that_came_to_its_end(self, folder):
        stored = events(folder)
        assert isinstance(stored[0], ev.SessionStarted)
        assert isinstance(stored[-1], ev.RunEnded)
        assert stored[-1].reason == ev.EndReason.FINISHED
        assert stored[-1].best_attempt

    def test_its_last_attempt_is_correct_and_judged_in_full(self, folder):
        verdict = Verdict.from_json(attempts(folder)[-1].verdict)
        assert verdict.tier == "full"
        assert verdict.correct
        assert verdict.profile

    def test_it_holds_the_files_of_every_attempt(self, folder):
        for attempt in attempts(folder):
            assert all(read_blob(folder, sha256) for sha256 in attempt.files.values())

    def test_it_is_what_its_script_says(self, folder):
        script = SCRIPTS[folder.name]
        turns = [event.message for event in events(folder) if isinstance(event, ev.ModelTurn)]
        assert [turn["content"] for turn in turns] == [turn.words for turn in script.turns]
        assert open_session(folder).device == script.device

    def test_it_names_no_folder_of_the_machine_it_was_made_on(self, folder):
        text = "".join((folder / name).read_text() for name in ("session.json", "events.jsonl"))
        assert str(RECORDINGS.parent.parent) not in text
        assert "warpsmith-recording" not in text


@pytest.mark.parametrize(
    "folder", [path for path in BUNDLED if path.name.startswith("demo-")], ids=lambda path: path.name
)
def test_a_demo_has_a_mistake_of_each_kind(folder):
    verdicts = [attempt.verdict for attempt in attempts(folder)]
    assert [passed(verdict) for verdict in verdicts] == [
        [False, None, None, None],
        [True, True, False, None],
        [True, True, True, True],
        [True, True, True, True],
        [True, True, True, True],
    ]
    slow, fast, _ = (verdict["profile"]["speedup"]["eager"]["ratio"] for verdict in verdicts[2:])
    assert slow < 1 < fast
    assert verdicts[-1]["reward"] == 3


@pytest.mark.slow
@pytest.mark.alone
def test_the_demo_replays_with_verdicts_of_today(tmp_path):
    project = copy_project(tmp_path)
    spec = resolve_target(f"{project}/{':'.join(DEMO_TARGET)}", device="cpu")
    settings = Settings(model="replay:demo-cpu", device="cpu", home=tmp_path / "home", cache=tmp_path / "cache")
    assert run(spec, settings) == ExitCode.OK
    session = next((tmp_path / "home" / "sessions").iterdir())
    recorded, today = attempts(RECORDINGS / "demo-cpu"), attempts(session)
    called = [
        attempt for attempt in today if attempt.call_id
    ]  # the engine adds one of its own where the last was disturbed
    assert [passed(attempt.verdict) for attempt in called] == [passed(attempt.verdict) for attempt in recorded]
    assert called[-1].verdict["profile"]["samples"] != recorded[-1].verdict["profile"]["samples"]
    assert events(session)[-1].reason == ev.EndReason.FINISHED
