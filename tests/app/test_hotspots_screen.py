"""The ranking in the IDE: what is listed, told and refused, and that Enter makes a session from a capture."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agent.session import list_sessions, open_session
from agent.settings import Settings
from app.ide import WarpsmithApp
from app.screens.comparing import ComparingScreen
from app.screens.hotspots import HotspotsScreen
from app.screens.session import SessionScreen
from app.screens.task_form import TaskFormScreen
from app.widgets.lines import LinesView
from sandbox.hotspots.folder import recording_of
from sandbox.hotspots.ranking import Ranking
from tests.app.conftest import FAKE, until
from tests.sandbox.hotspots.conftest import BLOCKS
from tests.sandbox.hotspots.test_compare import BLOCK, ranking

MANIFEST = {
    "schema": "warpsmith.capture/1",
    "class": "Block",
    "module": "blocks",
    "main": "",
    "python": sys.executable,
    "refused": "",
    "next_step": "",
    "init_missing": "",
    "modes": {},
    "structure": {},
    "plain": {},
    "state": {"tensors": {}, "baked": {}, "ties": [], "copied": True},
    "attributes": {},
    "inputs": [],
    "notes": [],
    "training": True,
    "autocast": "",
    "grad_mode": "grad",
    "gradients": True,
    "tf32": False,
    "dynamic": [],
}
HINT = "Capture a part of it."


def ranked(folder: Path, refused: str = "") -> Ranking:
    """A ranking of two classes; there is a capture of the first, and the second cannot be opened."""
    file = folder / "blocks.py"
    file.write_text(BLOCKS)
    capture = folder / "captures" / "Block"
    capture.mkdir(parents=True)
    about = {**MANIFEST, "file": str(file), "refused": refused, "next_step": HINT if refused else ""}
    (capture / "manifest.json").write_text(json.dumps(about))
    block = replace(BLOCK, module="blocks", file=str(file))
    inner = replace(BLOCK, module="blocks", name="make.<locals>.Inner", file=str(file))
    made = ranking(1.0, 1.0, classes=(block, inner), captures={"blocks:Block": "Block"})
    return replace(made, folder=folder)


def ide(folder: Path, made: Ranking) -> WarpsmithApp:
    settings = Settings(home=folder / "home", device="cpu")
    return WarpsmithApp(HotspotsScreen(made, settings), settings.home, {})


def text(pilot: Pilot[None], name: str) -> str:
    """What a view of the screen in sight holds."""
    return "\n".join(each.content.plain for each in pilot.app.screen.query_one(name, LinesView).rows)


async def test_the_list_tells_shares_and_why_a_class_cannot_be_opened(tmp_path: Path) -> None:
    app = ide(tmp_path, ranked(tmp_path))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "50.0%" in text(pilot, "#hotspots"))
        assert "float32 train" in text(pilot, "#hotspots-facts")
        assert "class Block(nn.Module):" in text(pilot, "#hotspots-source")
        await pilot.press("down", "enter")
        await until(pilot, lambda: list(app._notifications))
        assert "inside a function" in next(iter(app._notifications)).message
        assert isinstance(app.screen, HotspotsScreen)


async def test_enter_opens_a_session_on_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.controller.engine_command", lambda folder: [sys.executable, str(FAKE), str(folder)])
    app = ide(tmp_path, ranked(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "50.0%" in text(pilot, "#hotspots"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
    (session,) = list_sessions(tmp_path / "home")
    task = open_session(session.folder).task
    assert task.capture == str(tmp_path / "captures" / "Block")
    assert task.training
    assert task.gradients


async def test_a_class_that_could_not_be_captured_is_asked_for(tmp_path: Path) -> None:
    app = ide(tmp_path, ranked(tmp_path, refused="It is called with a socket."))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "50.0%" in text(pilot, "#hotspots"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TaskFormScreen))
        assert HINT in next(iter(app._notifications)).message


async def test_a_comparison_is_shown_as_it_goes_and_ended_with_its_window(tmp_path: Path) -> None:
    said = "import sys; print('hotspots 10 s', file=sys.stderr, flush=True); print('Steps are 2.00 times as fast.')"
    app = ide(tmp_path, ranked(tmp_path))
    async with app.run_test(size=(100, 30)) as pilot:
        app.push_screen(ComparingScreen([sys.executable, "-c", said]))
        await until(pilot, lambda: isinstance(app.screen, ComparingScreen))
        await until(pilot, lambda: "2.00 times as fast" in text(pilot, "ComparingScreen LinesView"))
        assert "hotspots 10 s" in text(pilot, "ComparingScreen LinesView")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HotspotsScreen))
        endless = ComparingScreen([sys.executable, "-c", "import time; print('on', flush=True); time.sleep(600)"])
        app.push_screen(endless)
        await until(pilot, lambda: endless._process)
        process = endless._process
        assert process is not None
        await pilot.press("escape")
        await until(pilot, lambda: process.returncode is not None)


def test_a_recording_is_found_from_its_capture(tmp_path: Path) -> None:
    (tmp_path / "captures" / "Block").mkdir(parents=True)
    capture = str(tmp_path / "captures" / "Block")
    assert recording_of(capture) is None
    (tmp_path / "run.json").touch()
    assert recording_of(capture) == tmp_path
    assert recording_of("") is None
