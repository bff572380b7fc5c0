"""The IDE with the real engine behind it: a recording is replayed, and what it leads to is done for real on the CPU."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from textual.pilot import Pilot

from agent.session import create_session
from agent.settings import Settings
from app.controller import SessionController
from app.ide import WarpsmithApp
from app.screens.choice import ChoiceScreen
from app.screens.session import SessionScreen
from app.widgets.stream import StreamView
from sandbox.task import TaskSpec
from tests.agent.support import UNCOMPILED
from tests.app import sessions
from tests.app.conftest import until
from tests.app.test_ide import see_diff, shown, state

LONG = 240.0


@pytest.fixture(autouse=True)
def real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.clock.time", time)


def begin(tmp_path: Path, recording: Path, spec: TaskSpec) -> WarpsmithApp:
    home = tmp_path / "home"
    settings = Settings(model=f"replay:{recording}", home=home, cache=tmp_path / "cache", device="cpu")
    folder = create_session(spec, settings, home)
    return WarpsmithApp(SessionScreen(SessionController(folder), run=True), home, {})


def task(tmp_path: Path) -> TaskSpec:
    inputs = "torch.randn(64, 256), torch.randn(64, 256)"
    return sessions.project(tmp_path / "project", "cpu").with_changes(init="256", inputs=inputs, env=UNCOMPILED)


async def ended(pilot: Pilot[None], seconds: float = LONG) -> None:
    await until(pilot, lambda: state(pilot).end is not None and not state(pilot).running, seconds)


async def test_a_run_survives_the_death_of_its_engine(tmp_path: Path) -> None:
    spec = task(tmp_path)
    app = begin(tmp_path, sessions.record_words(tmp_path / "recording", spec), spec)
    async with app.run_test(size=(120, 40)) as pilot:
        await ended(pilot)
        assert "The second answer." in shown(pilot, StreamView)
        assert "Write kernels/note.txt +1" in shown(pilot, StreamView)
        engine = next(p for p in psutil.Process().children() if "agent.engine" in " ".join(p.cmdline()))
        os.kill(engine.pid, signal.SIGKILL)
        await until(pilot, lambda: state(pilot).lost)
        await pilot.press("f5")
        await until(pilot, lambda: state(pilot).ready and "Session resumed" in shown(pilot, StreamView), LONG)


@pytest.mark.slow
async def test_a_module_gets_faster_lands_and_is_taken_back(tmp_path: Path) -> None:
    spec = task(tmp_path)
    app = begin(tmp_path, sessions.record_decisions(tmp_path / "recording", spec), spec)
    async with app.run_test(size=(120, 40)) as pilot:
        await ended(pilot)
        attempts = state(pilot).attempts
        assert attempts[0].verdict.build is not None
        assert not attempts[0].verdict.build.ok
        best = state(pilot).best()
        assert best is not None, attempts[-1].verdict.reason
        await see_diff(pilot)
        await pilot.press("a", "l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        await pilot.press("2", "enter")
        await until(pilot, lambda: state(pilot).landings, LONG)
        kernels = spec.path.with_name("blocks_kernels")
        assert "residual_norm(x, residual" in spec.path.read_text()
        assert (kernels / "residual_norm.cpp").read_text() == sessions.CPU_KERNEL
        await pilot.press("u")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
        await pilot.press("2", "enter")
        await until(pilot, lambda: state(pilot).landing_to_undo() is None, LONG)
        assert spec.path.read_text() == sessions.ORIGINAL
        assert not kernels.exists()
