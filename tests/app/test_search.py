"""A search in the IDE: the coordinator is a real process that tells one, and in one test the real one against a real server."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from agent.search.record import find_record
from agent.session import create_session
from app.ide import WarpsmithApp
from app.screens.search import SearchScreen
from app.screens.search_form import SearchFormScreen
from app.screens.session import SessionScreen
from app.search import SearchController
from app.widgets.banner import Banner
from app.widgets.diff import DiffView
from app.widgets.lines import LinesView
from app.widgets.steer import SteerInput
from app.widgets.stream import StreamView
from tests.agent.support import make_settings, make_spec
from tests.app import searches, sessions
from tests.app.conftest import FAKE, controller, ide, until
from tests.app.test_ide import session, shown, text, told
from tests.servers.openai_server import OpenAIServer, Reply

WIDE = (120, 40)
TELLING = str(Path(searches.__file__))


@pytest.fixture(autouse=True)
def fake_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.controller.engine_command", lambda folder: [sys.executable, str(FAKE), str(folder)])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def begun(folder: Path, *options: str) -> WarpsmithApp:
    search = SearchController(folder, [sys.executable, TELLING, str(folder), *options])
    return WarpsmithApp(SearchScreen(search, run=True), folder.parent.parent, {})


def screen(pilot: Pilot[None]) -> SearchScreen:
    return next(each for each in pilot.app.screen_stack if isinstance(each, SearchScreen))


def table(pilot: Pilot[None]) -> str:
    return text(screen(pilot).query_one("#agents", LinesView))


def offered(pilot: Pilot[None]) -> set[str]:
    return {binding.binding.action for binding in pilot.app.screen.active_bindings.values() if binding.enabled}


async def test_agents_are_shown_side_by_side_and_the_best_is_offered_as_a_proposal(tmp_path: Path) -> None:
    folder, made = searches.search(tmp_path)
    async with begun(folder).run_test(size=WIDE) as pilot:
        found = screen(pilot).query_one("#found", LinesView)
        await until(pilot, lambda: "The best is attempt 4 of agent 1, 3.12× eager" in text(found))
        rows = table(pilot).splitlines()
        assert rows[1].split()[:8] == ["★", "1", "#4", "of", "4", "3", "3.12", "■"]
        assert rows[2].split()[:4] == ["2", "2", "−1", "–"]
        assert [idea[:20] in row for idea, row in zip(searches.IDEAS, rows[1:], strict=True)] == [True, True]
        await pilot.press("down")
        await until(pilot, lambda: "reward −1" in text(screen(pilot).query_one("#agent", LinesView)))
        await pilot.press("up", "o")
        await until(pilot, lambda: session(pilot).query_one("#original", DiffView).hunk)
        await pilot.press("a")
        await until(pilot, lambda: "accept" in [command["type"] for command in told(made[0])])
        await pilot.press("S")
        assert pilot.app.screen is screen(pilot)


async def test_a_session_is_looked_into_while_it_runs_and_taken_over_when_the_search_ends(tmp_path: Path) -> None:
    folder, made = searches.search(tmp_path)
    async with begun(folder, "--hold").run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "#4 of 4" in table(pilot) and "−1" in table(pilot))
        assert {"stop", "open"} <= offered(pilot)
        assert "run" not in offered(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "One warp a row" in shown(pilot, StreamView))
        assert not {"land", "steer", "run", "stop"} & offered(pilot)
        assert "S goes back" in session(pilot).query_one(SteerInput).placeholder
        assert not told(made[0])
        screen(pilot).controller.stop()
        await until(pilot, lambda: session(pilot).controller.state.ready and not session(pilot).controller.watching)
        await until(pilot, lambda: "land" in offered(pilot))
        await pilot.press("S")
        await until(pilot, lambda: "F5 goes on" in str(screen(pilot).query_one("#top").render()))
        assert {"run", "open"} <= offered(pilot)
        assert not find_record(tmp_path, "last").ended


async def test_a_search_that_was_stopped_goes_on(tmp_path: Path) -> None:
    folder, _ = searches.search(tmp_path)
    async with begun(folder, "--hold").run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "#4 of 4" in table(pilot) and "−1" in table(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: not screen(pilot).controller.running)
        screen(pilot).controller._argv.remove("--hold")
        await pilot.press("f5")
        found = screen(pilot).query_one("#found", LinesView)
        await until(pilot, lambda: "The best is attempt 4 of agent 1" in text(found))
        assert "run" not in offered(pilot)
        assert "Look at its best attempt with: warpsmith sessions resume 11111111" in screen(pilot).farewell("")


async def test_leaving_stops_the_agents_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder, _ = searches.search(tmp_path)
    app = begun(folder, "--hold")
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "#4 of 4" in table(pilot))
        search = screen(pilot)
        await pilot.press("ctrl+q")
    assert search.controller._client is not None
    assert not search.controller._client.alive
    assert app.last_search is search
    assert search.farewell(" --home x").endswith("warpsmith run --resume-search 5ea2c4ed --home x")


async def test_a_search_is_begun_from_a_session_once_the_form_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; print(f'told: {sys.argv[1:]}', file=sys.stderr); sys.exit(4)"
    monkeypatch.setattr("app.search.own_command", lambda *words, home: [sys.executable, "-c", code, *words, str(home)])
    folder = sessions.record(tmp_path)
    async with ide(folder).run_test(size=WIDE) as pilot:
        await until(pilot, lambda: session(pilot).controller.loaded and "search" in offered(pilot))
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, SearchFormScreen))
        form = pilot.app.screen
        form.query_one("#agents", Input).value = "some"
        await pilot.press("enter")
        await until(pilot, lambda: "agents: it has to be a whole number" in str(form.query_one("#wrong").render()))
        for name, value in {
            "agents": "1",
            "ideas": "tile it; fuse it",
            "models": "openai/a, openai/b, openai/c",
        }.items():
            form.query_one(f"#{name}", Input).value = value
        form.query_one("#turns", Input).value = "30"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SearchScreen))
        record = find_record(tmp_path, "last")
        assert (record.agents, record.rounds, record.settings.turn_limit) == (3, 1, 30)
        assert (record.ideas, record.models) == (["tile it", "fuse it"], ["openai/a", "openai/b", "openai/c"])
        await until(pilot, lambda: "unexpectedly" in text(screen(pilot).query_one(Banner)))
        assert f"told: ['run', '--resume-search', '{record.id}'" in text(screen(pilot).query_one(Banner))


async def test_a_session_of_a_search_leads_to_it(tmp_path: Path) -> None:
    _, made = searches.over(tmp_path)
    app = WarpsmithApp(SessionScreen(controller(made[1])), tmp_path, {})
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: session(pilot).controller.loaded and "search" in offered(pilot))
        await pilot.press("S")
        await until(pilot, lambda: "#4 of 4" in table(pilot))
        assert "run" not in offered(pilot)


@pytest.mark.long
@pytest.mark.slow
async def test_the_real_coordinator_says_why_no_agent_could_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("app.clock.time", time)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    refusal = Reply(status=401, error={"error": {"message": "no such key"}})
    with OpenAIServer([refusal] * 20) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url)
        folder = create_session(make_spec(tmp_path), settings, settings.home)
        async with ide(folder).run_test(size=WIDE) as pilot:
            await until(pilot, lambda: session(pilot).controller.loaded and "search" in offered(pilot))
            await pilot.press("S")
            await until(pilot, lambda: isinstance(pilot.app.screen, SearchFormScreen))
            pilot.app.screen.query_one("#agents", Input).value = "1"
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, SearchScreen))
            await until(pilot, lambda: "No agent could work" in text(screen(pilot).query_one(Banner)), 200.0)
            assert "no such key" in text(screen(pilot).query_one(Banner))
            assert "The model could not be asked" in table(pilot)
            assert "run" in offered(pilot)
