"""The IDE as a developer uses it: keys in, screen and commands out. The engine is a real process that tells a recording."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandList
from textual.pilot import Pilot
from textual.widgets import Input

from agent import events
from agent.landing import FileChange, land
from agent.landing.deed import Journal
from agent.skill_places import project_of
from agent.skills import content_sha256
from app.controller import SessionController
from app.engine_client import Arrival
from app.ide import WarpsmithApp
from app.screens.choice import ChoiceScreen
from app.screens.help import HelpScreen
from app.screens.picker import PickerScreen
from app.screens.reason import ReasonScreen
from app.screens.session import SessionScreen
from app.screens.sessions import SessionsScreen
from app.screens.task_form import TaskFormScreen
from app.state import Problem, SessionState
from app.widgets.attempts import AttemptsTable
from app.widgets.banner import Banner
from app.widgets.code import CodeView
from app.widgets.code_pane import CodePane
from app.widgets.diff import DiffView
from app.widgets.lines import LinesView
from app.widgets.steer import SteerInput
from app.widgets.stream import StreamView
from app.widgets.verdict import VerdictPanel
from tests.agent.landing.repositories import git
from tests.agent.landing.worlds import CALM
from tests.app import sessions
from tests.app.conftest import ide, until

WIDE = (120, 40)


def session(pilot: Pilot[None]) -> SessionScreen:
    assert isinstance(pilot.app, WarpsmithApp)
    return next(screen for screen in reversed(pilot.app.screen_stack) if isinstance(screen, SessionScreen))


def state(pilot: Pilot[None]) -> SessionState:
    return session(pilot).controller.state


def text(view: LinesView) -> str:
    return "\n".join(row.content.plain for row in view.rows)


def shown(pilot: Pilot[None], kind: type[LinesView]) -> str:
    return text(session(pilot).query_one(kind))


def told(folder: Path) -> list[dict[str, Any]]:
    """The commands the engine has received."""
    path = folder / "commands.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def ready(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: state(pilot).ready and session(pilot).controller.loaded)


async def see_diff(pilot: Pilot[None]) -> DiffView:
    await pilot.press("]")
    view = session(pilot).query_one("#original", DiffView)
    await until(pilot, lambda: view.hunk)
    return view


# --- a recorded session --------------------------------------------------------------------------------------------


async def test_a_recorded_session_is_shown_whole(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "13.2 µs" in shown(pilot, VerdictPanel))
        assert session(pilot).query_one(AttemptsTable).rows[4].content.plain.startswith("★ 4")
        assert "The agent is done; attempt 4 is the best" in shown(pilot, StreamView)
        source = session(pilot).query_one("#source", CodeView)
        await until(pilot, lambda: "class ResidualNorm" in text(source))
        marked = [row.content.plain for row in source.rows if "▎" in row.content.plain]
        assert "class ResidualNorm(nn.Module):" in marked[0]
        assert "class Gate" not in "".join(marked)


async def test_a_session_that_never_began_says_what_to_do(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    (folder / "events.jsonl").write_text("")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        assert "F5 lets the agent begin" in shown(pilot, StreamView)
        assert "No attempt yet" in shown(pilot, AttemptsTable)
        await until(pilot, lambda: "class ResidualNorm" in text(session(pilot).query_one("#source", CodeView)))


async def test_before_the_first_attempt_the_original_is_shown(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, upto="plan")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "aten::mul" in shown(pilot, VerdictPanel))
        assert "depends on: x, residual, weight, gate.scale" in shown(pilot, VerdictPanel)


async def test_selecting_an_attempt_shows_its_verdict_and_its_code(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f6", "home")
        await until(pilot, lambda: "does not compile" in shown(pilot, VerdictPanel))
        await pilot.press("f3", "f3", "f3")
        kernels = session(pilot).query_one("#kernels", CodeView)
        await until(pilot, lambda: "totl" in text(kernels))
        assert '✗ identifier "totl" is undefined' in text(kernels)


async def test_the_previous_attempt_is_what_the_difference_is_against(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f6", "home", "down", "f3", "f3")
        view = session(pilot).query_one("#previous", DiffView)
        await until(pilot, lambda: "totl" in text(view))
        assert [hunk.file for hunk in view.hunks] == ["kernels/residual_norm.cu"]


async def test_only_the_last_blocks_of_a_long_session_are_drawn(tmp_path: Path) -> None:
    folder = sessions.record_long(tmp_path, 10_000)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        stream = session(pilot).query_one(StreamView)
        await until(pilot, lambda: len(stream.rows) > 60)
        assert len(state(pilot).blocks) > 4_000
        assert len(stream.rows) < 1_000
        assert "earlier, scroll up" in stream.rows[0].content.plain
        before = len(stream.rows)
        stream.focus()
        await pilot.press("pageup", "g")
        await until(pilot, lambda: len(stream.rows) > before)
        assert stream.scroll_offset.y > 0
        await pilot.press("end")
        await until(pilot, lambda: stream.scroll_offset.y == stream.max_scroll_y)


# --- following an engine -------------------------------------------------------------------------------------------


async def test_a_run_is_followed_as_it_happens(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    recorded = (folder / "events.jsonl").read_text()
    (folder / "events.jsonl").write_text(recorded.splitlines()[0] + "\n")
    app = ide(folder, "--from", "2", run=True)
    (folder / "events.jsonl").write_text(recorded)
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: state(pilot).end is not None)
        await until(pilot, lambda: "The agent is done" in shown(pilot, StreamView))
        assert len(state(pilot).attempts) == 4


async def test_an_answer_is_shown_while_it_streams_and_followed(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, upto="plan")
    async with ide(folder, "--deltas", "400").run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f5")
        stream = session(pilot).query_one(StreamView)
        await until(pilot, lambda: "word150" in text(stream))
        assert stream.following
        await until(pilot, lambda: stream.scroll_offset.y == stream.max_scroll_y)


async def test_what_arrives_while_the_screen_is_taken_down_finds_nobody(tmp_path: Path) -> None:
    async with ide(sessions.record(tmp_path)).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await session(pilot).query_one(Banner).remove()
        session(pilot).controller.state.report(Problem("It is over.", "", ""))
        session(pilot).refresh_state()
        assert session(pilot).controller.state.problem is not None


async def test_scrolling_up_ends_the_following_and_the_end_brings_it_back(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        stream = session(pilot).query_one(StreamView)
        await until(pilot, lambda: stream.max_scroll_y > 0 and stream.following)
        stream.focus()
        await pilot.press("pageup")
        await until(pilot, lambda: stream.scroll_offset.y < stream.max_scroll_y)
        place = stream.scroll_offset.y
        session(pilot).controller._arrived([])
        await pilot.press("i", *"go on", "enter")
        await until(pilot, lambda: "go on" in text(stream))
        assert stream.scroll_offset.y == place
        stream.focus()
        await pilot.press("end")
        await until(pilot, lambda: stream.scroll_offset.y == stream.max_scroll_y)


async def test_a_call_is_opened_and_folded(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, upto="plan")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f4", "up")
        assert "The plan is noted." not in shown(pilot, StreamView)
        await pilot.press("enter")
        assert "│ The plan is noted." in shown(pilot, StreamView)
        await pilot.press("enter")
        assert "The plan is noted." not in shown(pilot, StreamView)


async def test_what_the_developer_says_reaches_the_engine(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("i", *"use float4", "enter")
        await until(pilot, lambda: {"type": "steer", "text": "use float4"} in told(folder))
        await until(pilot, lambda: "use float4" in shown(pilot, StreamView))
        steer = session(pilot).query_one(SteerInput)
        assert steer.value == ""
        await pilot.press("up")
        assert steer.value == "use float4"


async def test_letters_are_typed_and_decide_nothing_while_telling(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await see_diff(pilot)
        await pilot.press("i", *"arlu]q?")
        assert session(pilot).query_one(SteerInput).value == "arlu]q?"
        assert pilot.app.screen is session(pilot)
        assert told(folder) == []


async def test_escape_stops_the_agent(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, upto="plan")
    async with ide(folder, "--deltas", "100").run_test(size=WIDE) as pilot:
        await ready(pilot)
        session(pilot).controller.state.running = True
        await pilot.press("escape")
        await until(pilot, lambda: {"type": "interrupt"} in told(folder))
        await until(pilot, lambda: "You stopped the run" in shown(pilot, StreamView))


async def test_escape_without_a_run_goes_back_to_the_code(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("i", "x", "escape")
        assert session(pilot).query_one(CodePane).view.has_focus
        assert session(pilot).query_one(SteerInput).value == "x"
        assert told(folder) == []


async def test_the_death_of_the_engine_is_shown_and_mended(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, upto="plan")
    app = ide(folder, "--die", "7")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: state(pilot).lost)
        banner = session(pilot).query_one(Banner)
        assert banner.display
        assert "exit code 7" in text(banner)
        assert "the disk is on fire" in text(banner)
        session(pilot).controller._argv = session(pilot).controller._argv[:-2]
        await pilot.press("f5")
        await until(pilot, lambda: state(pilot).ready)
        assert not banner.display


async def test_an_engine_that_cannot_be_started_is_a_problem(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    app = WarpsmithApp(SessionScreen(SessionController(folder, ["/nowhere/python"])), tmp_path, {})
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: session(pilot).controller.loaded and state(pilot).problem is not None)
        await until(pilot, lambda: "The engine does not start" in shown(pilot, Banner))
        await pilot.press("x")
        assert not session(pilot).query_one(Banner).display


@pytest.mark.parametrize("reason", ["task_unusable", "environment", "model_error", "replay_diverged"])
async def test_a_bad_end_stays_in_sight_with_its_next_step(tmp_path: Path, reason: str) -> None:
    folder = sessions.record(tmp_path, upto="plan")
    end = events.RunEnded(reason=events.EndReason(reason), detail="kernels/k.cu: [so it was]")
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(events.to_json(end, n=1_000, time=sessions.START)) + "\n")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "[so it was]" in shown(pilot, Banner))
        assert "→ " in shown(pilot, Banner)


async def test_leaving_ends_the_engine_and_loses_nothing(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    app = ide(folder)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot)
        controller = session(pilot).controller
        await pilot.press("ctrl+q")
    assert not controller.engine_alive
    assert told(folder)[-1] == {"type": "close"}
    assert app.last_session == "3f9a1c2e"


async def test_control_c_ends_nothing(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert pilot.app.is_running
        assert "Ctrl-Q leaves" in next(iter(pilot.app._notifications)).message
        assert told(folder) == []


# --- hunks ---------------------------------------------------------------------------------------------------------


async def test_hunks_are_accepted_and_rejected_with_a_reason(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        view = await see_diff(pilot)
        first, second, third, whole = view.hunks
        await pilot.press("a")
        assert view.hunk == second
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReasonScreen))
        await pilot.press(*"not asked", "enter")
        await until(pilot, lambda: len(told(folder)) == 2)
        assert told(folder) == [
            {"type": "accept", "attempt": 4, "file": "blocks.py", "hunk": first.id},
            {"type": "reject", "attempt": 4, "file": "blocks.py", "hunk": second.id, "reason": "not asked"},
        ]
        await until(pilot, lambda: "✗ rejected: not asked" in text(view))
        assert "✓ accepted" in text(view)
        assert view.hunk == third
        await pilot.press("]", "]", "]")
        assert view.hunk == whole
        await pilot.press("[")
        assert view.hunk == third


async def test_a_rejection_may_have_no_reason_and_may_be_dropped(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await see_diff(pilot)
        await pilot.press("r", "escape")
        assert pilot.app.screen is session(pilot)
        await pilot.press("r", "enter")
        await until(pilot, lambda: told(folder))
        assert [(command["type"], command["reason"]) for command in told(folder)] == [("reject", "")]


async def test_a_whole_file_is_decided_at_once(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await see_diff(pilot)
        await pilot.press("A")
        said = "3 changes of blocks.py accepted."
        await until(pilot, lambda: said in {each.message for each in pilot.app._notifications})
        await until(pilot, lambda: len(told(folder)) == 3)
        assert {command["file"] for command in told(folder)} == {"blocks.py"}


async def test_nothing_is_decided_where_no_hunk_is_in_sight(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("a", "r", "A", "R")
        assert pilot.app.screen is session(pilot)
        await pilot.press("f3", "f3", "a", "r")
        await asyncio.sleep(0.1)
        assert told(folder) == []


async def test_a_projects_skills_are_trusted_by_two_keys(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("K")
        assert pilot.app.screen is session(pilot)
        skill = project_of(session(pilot).controller.task) / ".agents" / "skills" / "tiles"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: tiles\ndescription: How to tile.\n---\nTile it.\n")
        for keys, trusted in ((["enter"], {}), (["2", "enter"], {str(skill): content_sha256(skill)})):
            await pilot.press("K")
            await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
            said = "".join(text(view) for view in pilot.app.screen.query(LinesView)).replace(" ", "")
            assert "tiles" in said
            await pilot.press(*keys)
            await until(pilot, lambda: pilot.app.screen is session(pilot))
            assert bool(told(folder)) <= bool(trusted)
        await until(pilot, lambda: told(folder) == [{"type": "trust_skills", "skills": trusted}])


# --- landing -------------------------------------------------------------------------------------------------------


async def test_landing_says_what_it_will_do_and_takes_two_keys(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        said = "\n".join(text(view) for view in pilot.app.screen.query(LinesView))
        assert "in ~/project/encoder" in said
        assert "changed blocks.py" in said
        assert "blocks_kernels/residual_norm.cpp" in said
        assert "It was judged in full today" in said
        await pilot.press("2", "enter")
        await until(pilot, lambda: told(folder))
        assert told(folder) == [{"type": "land", "attempt": 4, "commit": False, "faster": False, "untimed": False}]


async def test_a_landing_can_be_one_commit_where_there_is_a_repository(tmp_path: Path, monkeypatch) -> None:
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)
    folder = sessions.record(tmp_path, device="cpu")
    project = tmp_path / "project"
    git(project, "init", "-q", "-b", "main")
    for key, value in (("user.name", "Dev"), ("user.email", "d@e"), ("commit.gpgsign", "true")):
        git(project, "config", key, value)
    git(project, "add", ".")
    git(project, "-c", "commit.gpgsign=false", "commit", "-q", "-m", "start")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        said = "\n".join(text(view) for view in pilot.app.screen.query(LinesView))
        said = " ".join(said.split())
        assert "A commit on main would hold these files and nothing else, by Dev <d@e>." in said
        assert "It is not signed" in said
        assert "as one commit on main" in said
        await pilot.press("3", "enter")
        landed = {"type": "land", "attempt": 4, "commit": True, "faster": False, "untimed": False}
        await until(pilot, lambda: told(folder) == [landed])


async def test_a_landing_that_cannot_be_a_commit_says_why(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        said = "\n".join(text(view) for view in pilot.app.screen.query(LinesView))
        assert "It cannot be a commit: There is no git repository to commit to." in said


@pytest.mark.parametrize("keys", [["enter"], ["escape"], ["2", "escape"], ["y", "l", "enter"], ["2", "1", "enter"]])
async def test_no_stray_key_lands_anything(tmp_path: Path, keys: list[str]) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        await pilot.press(*keys)
        await until(pilot, lambda: pilot.app.screen is session(pilot))
        assert told(folder) == []


async def test_a_partial_landing_says_what_is_left_out(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        view = await see_diff(pilot)
        await pilot.press("]", "]", "r", "enter")
        await until(pilot, lambda: "✗ rejected" in text(view))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        said = "\n".join(text(view) for view in pilot.app.screen.query(LinesView))
        assert "1 of 4 changes are left out" in said
        assert "It is judged in full first" in said
        assert "Land it, without what I rejected" in said


async def test_what_is_not_correct_cannot_land(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f6", "home", "l")
        await until(pilot, lambda: len(pilot.app._notifications))
        assert "Attempt 1 is not correct" in next(iter(pilot.app._notifications)).message
        assert pilot.app.screen is session(pilot)


def landed_session(tmp_path: Path) -> Path:
    """A recorded session whose fourth attempt has landed."""
    folder = sessions.record(tmp_path)
    files = [
        {"path": str(tmp_path / "p" / "blocks.py"), "before": "1", "after": "2"},
        {"path": str(tmp_path / "p" / "k" / "k.cu"), "before": None, "after": "3"},
    ]
    landed = events.Landed(landing=1, attempt=4, files=files, partial=False, verdict={})
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(events.to_json(landed, n=1_000, time=sessions.START)) + "\n")
    return folder


async def test_what_has_landed_is_not_offered_again(tmp_path: Path) -> None:
    async with ide(landed_session(tmp_path)).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("l")
        await until(pilot, lambda: len(pilot.app._notifications))
        assert "All of attempt 4 has landed already" in next(iter(pilot.app._notifications)).message
        assert pilot.app.screen is session(pilot)


async def test_a_landing_is_undone_after_it_was_said_what_that_does(tmp_path: Path) -> None:
    folder = landed_session(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("u")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        said = "\n".join(text(view) for view in pilot.app.screen.query(LinesView))
        assert "blocks.py  becomes what it was" in said
        assert "k/k.cu  is removed" in said
        await pilot.press("2", "enter")
        await until(pilot, lambda: told(folder) == [{"type": "undo", "landing": 1, "partly": False}])


async def test_an_undo_over_an_edit_offers_what_can_be_taken_back_and_it_lands_again(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, device="cpu")
    module = tmp_path / "project/encoder/blocks.py"
    journal = Journal(folder)
    changes = [
        FileChange(module, module.read_bytes(), module.read_bytes() + b"# landed\n"),
        FileChange(module.with_name("k.cpp"), None, b"// kernel\n"),
    ]
    files = [journal.entry(change) for change in changes]
    land(changes)
    changes[1].path.write_bytes(b"mine\n")
    landed = events.Landed(landing=1, attempt=4, files=files, partial=False, verdict={})
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(events.to_json(landed, n=1_000, time=sessions.START)) + "\n")
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("u")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        said = "\n".join(text(view) for view in pilot.app.screen.query(LinesView))
        assert "k.cpp  edited since; left as it is" in said
        assert "Take back what can be" in said
        await pilot.press("2", "enter")
        await until(pilot, lambda: told(folder) == [{"type": "undo", "landing": 1, "partly": True}])
        undone = events.Undone(landing=1, files=[{"path": str(module), "outcome": "restored"}])
        session(pilot).controller._arrived([Arrival(undone, 1_001, sessions.START + 1)])
        await pilot.press("U")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        await pilot.press("2", "enter")
        await until(pilot, lambda: told(folder)[1:] == [{"type": "redo", "landing": 1}])


# --- help, sessions, keys, sizes -----------------------------------------------------------------------------------


async def test_the_help_shows_the_keys_as_they_are_set(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    app = ide(folder)
    app._keys["session.land"] = "ctrl+l"
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        view = pilot.app.screen.query_one(LinesView)
        await until(pilot, lambda: view.rows)
        assert "ctrl+l     land the selected attempt" in text(view)
        await pilot.press("escape")
        assert pilot.app.screen is session(pilot)


def test_every_key_can_be_set_by_its_id() -> None:
    bindings = [*SessionScreen.BINDINGS, *WarpsmithApp.BINDINGS, *PickerScreen.BINDINGS, *StreamView.BINDINGS]
    ids = [binding.id for binding in bindings]  # type: ignore[union-attr]
    assert None not in ids
    assert len(set(ids)) == len(ids)


async def test_another_session_is_opened_from_the_list(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    other = folder.with_name("20260101-000000-00000000-other")
    other.mkdir()
    head = json.loads((folder / "session.json").read_text())
    (other / "session.json").write_text(json.dumps({**head, "id": "00000000", "title": "other:Other"}))
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        first = session(pilot).controller
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, SessionsScreen))
        await until(pilot, lambda: len(pilot.app.screen.query_one(LinesView).rows) == 3)
        said = text(pilot.app.screen.query_one(LinesView))
        assert "● open here" in said
        assert "3.12×" in said
        assert "not begun" in said
        await pilot.press("end", "enter")
        await until(pilot, lambda: session(pilot).controller is not first)
        assert session(pilot).controller.session.id == "00000000"
        await until(pilot, lambda: not first.engine_alive)


async def test_an_empty_list_of_sessions_can_be_left(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    app = ide(folder)
    app.home = tmp_path / "empty"
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot)
        await pilot.press("f2")
        await until(pilot, lambda: "There is no session yet" in text(pilot.app.screen.query_one(LinesView)))
        await pilot.press("enter", "escape")
        assert pilot.app.screen is session(pilot)


async def test_a_narrow_screen_shows_one_pane_at_a_time(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        screen = session(pilot)
        panes = {name: screen.query_one(f"#{name}") for name in ("code", "agent", "verdict-pane", "attempts")}
        assert [name for name, pane in panes.items() if pane.display and pane.size.area] == ["code", "attempts"]
        await pilot.press("f4")
        await pilot.pause()
        assert [name for name, pane in panes.items() if pane.display] == ["agent", "attempts"]
        await pilot.press("f7")
        await pilot.pause()
        assert panes["verdict-pane"].display
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert all(pane.display for pane in panes.values())


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (60, 15), (300, 90)])
async def test_any_size_can_be_drawn(tmp_path: Path, size: tuple[int, int]) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=size) as pilot:
        await ready(pilot)
        await pilot.press("]", "f4", "f7", "f3")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "linux", "COLORTERM": ""}])
async def test_terminals_with_few_colours_show_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await see_diff(pilot)
        await until(pilot, lambda: "13.2 µs" in shown(pilot, VerdictPanel))


# --- picking a module ----------------------------------------------------------------------------------------------


def picker(tmp_path: Path) -> WarpsmithApp:
    from agent.settings import Settings

    sessions.project(tmp_path / "project")
    (tmp_path / "project" / "broken.py").write_text("import torch\nclass Broken(torch.nn.Module:\n")
    home = tmp_path / "home"
    return WarpsmithApp(
        PickerScreen(tmp_path / "project", Settings(home=home, cache=tmp_path / "cache", device="cpu")), home, {}
    )


async def test_modules_are_found_filtered_and_previewed(tmp_path: Path) -> None:
    async with picker(tmp_path).run_test(size=WIDE) as pilot:
        rows = pilot.app.screen.query_one("#modules", LinesView)
        await until(pilot, lambda: len(rows.rows) == 2)
        assert "Gate" in rows.rows[0].content.plain
        await pilot.press(*"rms")
        await until(pilot, lambda: len(rows.rows) == 1)
        assert "ResidualNorm" in rows.rows[0].content.plain
        assert "class ResidualNorm" in text(pilot.app.screen.query_one("#preview", LinesView))
        await pilot.press(*" zzz")
        await until(pilot, lambda: "Nothing fits" in text(rows))
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, PickerScreen)


async def test_a_folder_without_modules_says_so(tmp_path: Path) -> None:
    from agent.settings import Settings

    (tmp_path / "empty").mkdir()
    async with WarpsmithApp(
        PickerScreen(tmp_path / "empty", Settings(home=tmp_path)), tmp_path, {}
    ).run_test() as pilot:
        rows = pilot.app.screen.query_one("#modules", LinesView)
        await until(pilot, lambda: "No class with a forward method" in text(rows))


async def test_the_form_says_what_is_wrong_and_makes_the_session(tmp_path: Path) -> None:
    async with picker(tmp_path).run_test(size=WIDE) as pilot:
        rows = pilot.app.screen.query_one("#modules", LinesView)
        await until(pilot, lambda: len(rows.rows) == 2)
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, TaskFormScreen))
        form = pilot.app.screen
        fields = {field.id: field for field in form.query(Input)}
        assert fields["init"].value == "width="
        assert fields["init"].has_focus
        assert fields["inputs"].value == "torch.randn(8, 128), torch.randn(8, 128)"
        await pilot.press("enter")
        assert "'width' has no value yet" in str(form.query_one("#wrong").render())
        await pilot.press(*"64", "enter")
        assert "Without a model" in str(form.query_one("#wrong").render())
        assert fields["model"].has_focus
        fields["device"].value = "toaster"
        await pilot.press(*"replay:nothing", "enter")
        await until(pilot, lambda: "'toaster' is not a device" in str(form.query_one("#wrong").render()))
        fields["device"].value = "cpu"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SessionScreen))
        task = session(pilot).controller.task
        assert (task.class_name, task.init, task.device) == ("ResidualNorm", "width=64", "cpu")
        assert session(pilot).controller.session.settings.model == "replay:nothing"


# --- palette and copying -------------------------------------------------------------------------------------------


async def test_the_palette_offers_what_can_be_done_now(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        titles = [command.title for command in pilot.app.get_system_commands(session(pilot))]
        assert {"Land", "Sessions", "Run", "Help"} <= set(titles)
        assert "Undo" not in titles
        assert "Stop" not in titles
        await pilot.press("ctrl+p", *"Sessions")
        found = pilot.app.screen.query_one(CommandList)
        await until(pilot, lambda: found.option_count == 1 and found.highlighted == 0)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SessionsScreen))


async def test_a_hunk_is_copied_as_a_patch_and_code_without_its_numbers(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "class ResidualNorm" in text(session(pilot).query_one("#source", CodeView)))
        await pilot.press("y")
        assert pilot.app.clipboard == sessions.ORIGINAL.rstrip("\n")
        await see_diff(pilot)
        await pilot.press("y")
        assert pilot.app.clipboard == (
            "--- a/blocks.py\n+++ b/blocks.py\n@@ -5,0 +5,2 @@\n+\n+from .blocks_kernels import residual_norm\n"
        )


async def test_the_bell_rings_when_a_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = ide(sessions.record(tmp_path))
    rung: list[bool] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(True))
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot)
        assert rung == []
        for running in (True, False, False):
            state(pilot).running = running
            session(pilot).refresh_state()
        assert rung == [True]


BENCH = """import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(4)]


def get_init_inputs():
    return [4]
"""


async def test_a_file_that_brings_its_inputs_needs_none(tmp_path: Path) -> None:
    from agent.settings import Settings

    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "bench.py").write_text(BENCH)
    app = WarpsmithApp(PickerScreen(tmp_path / "p", Settings(home=tmp_path, model="m")), tmp_path, {})
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "Model" in text(pilot.app.screen.query_one("#modules", LinesView)))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, TaskFormScreen))
        fields = {field.id: field.value for field in pilot.app.screen.query(Input)}
        assert (fields["init"], fields["inputs"]) == ("", "")
        assert "get_inputs() of the file" in str(pilot.app.screen.query_one("#label-inputs").render())
