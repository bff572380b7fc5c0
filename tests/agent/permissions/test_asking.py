"""A call waits for the developer's word: with the real engine, and without a screen."""

from __future__ import annotations

import pytest

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.permissions.approvals import Approvals
from agent.session import create_session, find_session
from agent.store import read_events
from sandbox.errors import ExitCode
from tests.agent.support import make_recording, make_settings, make_spec, make_turn
from tests.servers.engine_process import EngineProcess
from tests.servers.headless_process import start_headless

DONE = make_turn("It cannot be made faster.")
WRITE = ("Write", {"file_path": "kernels/../kernels/a.cpp", "content": "// a\n// b\n"})
TOUCH = ("Bash", {"command": "touch made && ls *.py"})


@pytest.fixture
def session(tmp_path):
    def make(*turns, **settings):
        recording = make_recording(tmp_path, *turns)
        made = make_settings(tmp_path, model=f"replay:{recording}", **{"permission_mode": "ask", **settings})
        return create_session(make_spec(tmp_path), made, made.home)

    return make


def stored(folder, kind):
    return [item.event for item in read_events(folder) if isinstance(item.event, kind)]


def answer(engine, asked, scope, reason=""):
    engine.send(cmd.AnswerPermission(asked.call_id, scope, reason))


def results(folder):
    return [event.message["content"] for event in stored(folder, ev.ToolFinished)]


def test_the_question_says_what_and_why_and_each_answer_what_it_allows(session, tmp_path):
    looks = ("Glob", {"pattern": "*"})
    turn = make_turn("The kernel is missing. I write it now.", looks, WRITE, TOUCH, TOUCH)
    folder = session(turn, make_turn("", TOUCH), DONE)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        asked = engine.wait_for(ev.PermissionAsked)
        assert (asked.tool, asked.what, asked.why) == ("Write", "kernels/a.cpp +2 −0", "I write it now.")
        assert "+// b" in asked.detail
        assert [choice["scope"] for choice in asked.choices] == ["reject", "once", "session", "project"]
        assert asked.choices[2]["text"] == "Allow in this session: Write(kernels/**)"
        answer(engine, asked, "session")
        asked = engine.wait_for(ev.PermissionAsked)
        assert (asked.tool, asked.what) == ("Bash", TOUCH[1]["command"])
        assert asked.choices[3]["pattern"] == r"Bash(touch made && ls \*.py)"
        answer(engine, asked, "once")
        answer(engine, engine.wait_for(ev.PermissionAsked), "reject", "no more files, please")
        answer(engine, engine.wait_for(ev.PermissionAsked), "project")
        engine.wait_for(ev.RunEnded)
    assert (folder / "workspace" / "kernels" / "a.cpp").read_text() == "// a\n// b\n"
    assert results(folder)[3] == "[developer] The developer rejected this call of Bash: no more files, please"
    assert [(event.decision, event.scope) for event in stored(folder, ev.PermissionAnswered)] == [
        ("allow", "session"),
        ("allow", "once"),
        ("reject", "reject"),
        ("allow", "project"),
    ]
    kept = Approvals(tmp_path / "home", tmp_path / "project").rules()
    assert list(map(str, kept)) == [r"Bash(touch made && ls \*.py)"]


def test_what_was_allowed_and_the_mode_hold_when_the_session_goes_on_and_an_open_question_is_asked_anew(session):
    turn = make_turn("", WRITE, TOUCH)
    folder = session(turn, DONE, permission_mode="auto")
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
        engine.send(cmd.SetMode("ask"))
        engine.send(cmd.Run())
        answer(engine, engine.wait_for(ev.PermissionAsked), "session")
        engine.wait_for(ev.PermissionAsked)
        engine.process.kill()
    with EngineProcess(folder) as engine:
        assert engine.wait_for(ev.RunEnded).reason == EndReason.INTERRUPTED
        engine.send(cmd.Run())
        asked = engine.wait_for(ev.PermissionAsked)
        assert asked.tool == "Bash"
        engine.send(cmd.AnswerPermission("another", "once"))
        answer(engine, asked, "once")
        engine.wait_for(ev.RunEnded)
    assert results(folder)[1].startswith("Interrupted")
    assert (folder / "workspace" / "made").exists()


def test_an_interruption_and_another_mode_both_close_an_open_question(session):
    folder = session(make_turn("", TOUCH), make_turn("", TOUCH), DONE)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.PermissionAsked)
        engine.send(cmd.Interrupt())
        assert engine.wait_for(ev.RunEnded).reason == EndReason.INTERRUPTED
        engine.send(cmd.Run())
        engine.wait_for(ev.PermissionAsked)
        engine.send(cmd.SetMode("read-only"))
        engine.wait_for(ev.PermissionAnswered)
        engine.wait_for(ev.RunEnded)
    assert "read-only mode" in results(folder)[1]
    assert not (folder / "workspace" / "made").exists()


def test_without_a_screen_what_would_be_asked_is_denied_and_said(tmp_path):
    recording = make_recording(tmp_path, make_turn("", TOUCH), DONE, DONE)
    settings = make_settings(tmp_path, model=f"replay:{recording}", permission_mode="ask")
    done = start_headless(make_spec(tmp_path), settings).finish()
    assert done.returncode == ExitCode.FAILED
    assert "Bash was denied, since nobody is here to be asked" in done.stderr
    folder = find_session(settings.home, "last")
    assert "Nobody is here to be asked" in results(folder)[0]
    assert not (folder / "workspace" / "made").exists()


def test_a_rule_denies_in_every_mode_and_one_that_asks_offers_nothing_lasting(session):
    rules = {"deny": ("Bash(touch *)",), "ask": ("Write",), "permission_mode": "auto"}
    folder = session(make_turn("", TOUCH, WRITE), DONE, **rules)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        asked = engine.wait_for(ev.PermissionAsked)
        assert [choice["scope"] for choice in asked.choices] == ["reject", "once"]
        answer(engine, asked, "once")
        engine.wait_for(ev.RunEnded)
    assert "the developer's rule Bash(touch *) denies it" in results(folder)[0]
