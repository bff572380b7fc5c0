"""How the screens look. A changed look is accepted with ``pytest tests/app/test_snapshots.py --snapshot-update``."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from agent.landing.change import FileChange
from agent.settings import Settings
from app.ide import WarpsmithApp
from app.screens.choice import ChoiceScreen
from app.screens.picker import PickerScreen
from app.screens.search import SearchScreen
from app.screens.task_form import TaskFormScreen
from app.search import SearchController
from app.widgets.code import CodeView
from app.widgets.lines import LinesView
from app.widgets.verdict import VerdictPanel
from sandbox.task import TaskSpec
from tests.app import searches, sessions
from tests.app.conftest import ide, until
from tests.app.test_ide import ready, see_diff, session, text
from tests.app.test_permission import CHANGED, armed, ask, asked

SIZES = [(80, 24), (120, 40)]
by_size = pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40"])
Compare = Callable[..., bool]


async def finished(pilot: Pilot[None]) -> None:
    """Wait until the source, the verdict and the stream are drawn."""
    await ready(pilot)
    await until(pilot, lambda: "class ResidualNorm" in text(session(pilot).query_one("#source", CodeView)))
    await until(pilot, lambda: session(pilot).query_one(VerdictPanel).rows)
    source = session(pilot).query_one("#source", CodeView)
    await until(pilot, lambda: source.scroll_offset.y > 0 or source.max_scroll_y == 0)


async def rejected(pilot: Pilot[None]) -> None:
    """Reject the second hunk and accept the first."""
    await finished(pilot)
    view = await see_diff(pilot)
    await pilot.press("a", "r", *"keep it readable", "enter")
    await until(pilot, lambda: "✗ rejected: keep it readable" in text(view))
    await pilot.press("[")


def steps(*ways: Callable[[Pilot[None]], Awaitable[Any]]) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Go these ways, and on until nothing is made ready any more and nothing is said that goes away by itself."""

    async def go(pilot: Pilot[None]) -> None:
        for way in ways:
            await way(pilot)
            pilot.app.clear_notifications()  # now, while its screen is the one in front
            await pilot.pause()
        for field in pilot.app.screen.query(Input):
            field.cursor_blink = False
        await until(pilot, lambda: all(worker.is_finished for worker in pilot.app.workers))
        await asyncio.sleep(0.2)
        await pilot.pause()

    return go


@by_size
def test_a_finished_session(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=size, run_before=steps(finished))


def test_a_finished_session_on_a_large_screen(snap_compare: Compare, tmp_path: Path) -> None:
    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=(200, 60), run_before=steps(finished))


@by_size
def test_a_difference_with_a_rejected_hunk(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=size, run_before=steps(rejected))


def planned(task: TaskSpec, *_: object) -> list[FileChange]:
    """A landing as it is proposed, whatever the files that build and call kernels look like this month."""
    folder = task.path.with_name("blocks_kernels")
    kernel = FileChange(folder / "residual_norm.cpp", None, sessions.CPU_KERNEL.encode())
    others = [FileChange(folder / f"_{name}.py", None, b"") for name in ("build", "call", "check")]
    return [FileChange(task.path, task.path.read_bytes(), sessions.fused(sessions.ORIGINAL).encode()), kernel, *others]


@by_size
def test_the_proposal_to_land(
    snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setattr("agent.landing.plan", planned)

    async def propose(pilot: Pilot[None]) -> None:
        await pilot.press("l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))

    app = ide(sessions.record(tmp_path, device="cpu"))
    assert snap_compare(app, terminal_size=size, run_before=steps(rejected, propose))


@by_size
def test_the_agent_and_the_verdict(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    async def look(pilot: Pilot[None]) -> None:
        await pilot.press("f6", "home", "down", "f4")

    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=size, run_before=steps(finished, look))


def test_a_kernel_that_does_not_compile(snap_compare: Compare, tmp_path: Path) -> None:
    async def look(pilot: Pilot[None]) -> None:
        await pilot.press("f6", "home", "f3", "f3", "f3")
        await until(pilot, lambda: "totl" in text(session(pilot).query_one("#kernels", CodeView)))

    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=(120, 40), run_before=steps(finished, look))


def test_sixteen_colours(snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.delenv("COLORTERM")
    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=(120, 40), run_before=steps(rejected))


@by_size
@pytest.mark.parametrize("kind", ["command", "change"])
def test_what_the_agent_asks(snap_compare: Compare, tmp_path: Path, kind: str, size: tuple[int, int]) -> None:
    question = asked() if kind == "command" else asked("Write", f"{sessions.KERNEL_PATH} +40 −1", CHANGED)

    async def look(pilot: Pilot[None]) -> None:
        ask(pilot, question)
        await until(pilot, lambda: armed(pilot))

    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=size, run_before=steps(finished, look))


def test_what_the_agent_asks_without_colours(
    snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def look(pilot: Pilot[None]) -> None:
        ask(pilot)
        await until(pilot, lambda: armed(pilot))
        await pilot.press("s")

    assert snap_compare(ide(sessions.record(tmp_path)), terminal_size=(80, 24), run_before=steps(finished, look))


@by_size
def test_picking_a_module(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    sessions.project(tmp_path / "project")
    app = WarpsmithApp(PickerScreen(tmp_path / "project", Settings(home=tmp_path)), tmp_path, {})

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(pilot.app.screen.query_one("#modules", LinesView).rows) == 2)
        await pilot.press("down")

    assert snap_compare(app, terminal_size=size, run_before=steps(look))


@by_size
def test_a_search_that_is_over(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    folder, _ = searches.over(tmp_path)

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "The best is" in text(pilot.app.screen.query_one("#found", LinesView)))

    app = WarpsmithApp(SearchScreen(SearchController(folder)), tmp_path, {})
    assert snap_compare(app, terminal_size=size, run_before=steps(look))


def test_the_form_for_a_module(snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.screens.task_form.list_gpus", list)
    sessions.project(tmp_path / "project")
    app = WarpsmithApp(PickerScreen(tmp_path / "project", Settings(home=tmp_path, model="gpt-5")), tmp_path, {})

    async def fill(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(pilot.app.screen.query_one("#modules", LinesView).rows) == 2)
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, TaskFormScreen))
        await until(pilot, lambda: "auto · cpu" in str(pilot.app.screen.query_one("#label-device").render()))
        await pilot.press("enter")

    assert snap_compare(app, terminal_size=(80, 24), run_before=steps(fill))
