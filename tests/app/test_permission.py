"""What the agent asks is answered by the developer, knowingly, and never by a key that was meant for something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus
from textual.pilot import Pilot

from agent import events
from app.engine_client import Arrival
from app.screens.permission import KEYS, PermissionScreen
from app.screens.reason import ReasonScreen
from app.screens.session import SessionScreen
from app.widgets.lines import LinesView
from app.widgets.steer import SteerInput
from tests.app import sessions
from tests.app.conftest import ide, until
from tests.app.test_ide import WIDE, ready, session, state, text

CHANGED = "\n".join(["--- before", "+++ after", "@@ -1 +1,40 @@", "-// old", *(f"+float x{n};" for n in range(40))])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.screens.permission.GUARD_SECONDS", 0.02)


def asked(tool: str = "Bash", what: str = "make -j2 && ./try", detail: str = "") -> events.PermissionAsked:
    rule = "Write(kernels/**)" if detail else "Bash(make -j2 && ./try)"
    choices = [
        {"scope": "reject", "text": "Reject, and say why", "pattern": ""},
        {"scope": "once", "text": "Allow this once", "pattern": ""},
        {"scope": "session", "text": f"Allow in this session: {rule}", "pattern": rule},
        {"scope": "project", "text": f"Allow always in this project: {rule}", "pattern": rule},
    ]
    why = "I build it by hand to see the warnings."
    return events.PermissionAsked(call_id="q1", tool=tool, what=what, why=why, choices=choices, detail=detail)


def ask(pilot: Pilot[None], question: events.Event | None = None) -> None:
    """Let the engine say something."""
    controller = next(s for s in pilot.app.screen_stack if isinstance(s, SessionScreen)).controller
    controller._arrived([Arrival(question or asked(), None, sessions.START)])


def armed(pilot: Pilot[None]) -> bool:
    screen = pilot.app.screen
    windows = screen.query("Vertical") if isinstance(screen, PermissionScreen) else ()
    return any(window.border_subtitle == KEYS for window in windows)


def told(folder: Path) -> list[dict[str, str]]:
    lines = (folder / "commands.jsonl").read_text().splitlines()
    return [command for line in lines if (command := json.loads(line))["type"] in ("answer_permission", "set_mode")]


async def test_a_number_or_a_letter_points_and_enter_takes(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    ways = [
        (["2", "enter"], "once", ""),
        (["y", "enter"], "once", ""),
        (["s", "enter"], "session", ""),
        (["enter", "escape", "a", "enter"], "project", ""),
        (["n", "enter", *"too slow", "enter"], "reject", "too slow"),
    ]
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        for number, (keys, scope, reason) in enumerate(ways):
            ask(pilot, replace(asked(), call_id=f"q{number}"))
            await until(pilot, lambda: armed(pilot))
            await pilot.press(*keys)
            answer = {"type": "answer_permission", "call_id": f"q{number}", "scope": scope, "reason": reason}
            await until(pilot, lambda answer=answer: told(folder)[-1:] == [answer])
            await until(pilot, lambda: state(pilot).asked is None and pilot.app.screen is session(pilot))


async def test_keys_and_clicks_that_were_meant_for_something_else_answer_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.screens.permission.GUARD_SECONDS", 3600.0)
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        ask(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, PermissionScreen))
        await pilot.press("y", "enter", "2", "enter", "escape", "v")
        for _ in range(3):
            await pilot.click("Lettered", offset=(5, 1))
        assert isinstance(pilot.app.screen, PermissionScreen)
        assert told(folder) == []


async def test_the_click_that_gives_the_terminal_the_keyboard_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        ask(pilot)
        await until(pilot, lambda: armed(pilot))
        monkeypatch.setattr("app.screens.permission.GUARD_SECONDS", 3600.0)
        pilot.app.post_message(AppBlur())
        await until(pilot, lambda: not pilot.app.app_focus)
        pilot.app.post_message(AppFocus())
        await until(pilot, lambda: pilot.app.app_focus)
        for _ in range(3):
            await pilot.click("Lettered", offset=(5, 1))
        assert told(folder) == []


async def test_who_is_typing_is_not_interrupted_and_what_was_put_off_waits(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("i", *"yes, ")
        ask(pilot)
        await pilot.press(*"do it")
        assert session(pilot).query_one(SteerInput).value == "yes, do it"
        assert pilot.app.screen is session(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: armed(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is session(pilot))
        assert state(pilot).asked is not None
        session(pilot).show_question()
        assert pilot.app.screen is session(pilot)
        await pilot.press("escape", "p")
        await until(pilot, lambda: armed(pilot))
        message = {"role": "tool", "tool_call_id": "q1", "content": "Interrupted"}
        ask(pilot, events.ToolFinished(call_id="q1", name="Bash", ok=False, message=message, seconds=0))
        await until(pilot, lambda: pilot.app.screen is session(pilot))
        assert told(folder) == []


async def test_a_question_that_is_settled_while_a_reason_is_typed_closes_with_it(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        ask(pilot)
        await until(pilot, lambda: armed(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReasonScreen))
        ask(pilot, events.PermissionAnswered(call_id="q1", decision="allow", scope="mode"))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is session(pilot))
        assert told(folder) == []


async def test_what_is_clipped_is_shown_whole(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        ask(pilot, asked("Write", "kernels/a.cu +40 −1", CHANGED))
        await until(pilot, lambda: armed(pilot))
        view = pilot.app.screen.query_one("#asked", LinesView)
        assert "… 35 more lines: v shows all" in text(view)
        await pilot.press("v")
        assert "+float x39;" in text(view)
        await pilot.press("end")
        await until(pilot, lambda: view.scroll_offset.y == view.max_scroll_y)
        await pilot.press("escape")
        assert "+float x39;" not in text(view)


async def test_shift_tab_goes_through_the_modes_and_the_last_one_is_shown(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        assert state(pilot).mode == "auto"
        await pilot.press("shift+tab")
        await until(pilot, lambda: state(pilot).mode == "read-only")
        await pilot.press("i", "shift+tab")
        await until(pilot, lambda: state(pilot).mode == "ask")
        assert "mode: ask" in str(session(pilot).query_one("#status").render())
        assert [command["mode"] for command in told(folder)] == ["read-only", "ask"]
