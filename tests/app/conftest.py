import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot

from app.controller import SessionController
from app.ide import WarpsmithApp
from app.screens.session import SessionScreen
from tests.app import sessions

FAKE = Path(__file__).with_name("fake_engine.py")
LOOKED_AT = sessions.START + 300


@pytest.fixture(autouse=True)
def fixed_surroundings(tmp_path: Path) -> Iterator[None]:
    """A terminal with all colours, five minutes after the recorded session, in a home of the test's own.

    What is said for two seconds stays: a busy machine may not look at the screen in so short a time.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_COLOR", "COLORFGBG", "WT_SESSION", "VISUAL", "EDITOR"):
            patch.delenv(name, raising=False)
        for name, value in {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "HOME": str(tmp_path),
            "TZ": "UTC",
        }.items():
            patch.setenv(name, value)
        time.tzset()
        patch.setattr("app.clock.time", SimpleNamespace(time=lambda: LOOKED_AT))
        patch.setattr("textual.notifications.Notification.time_left", 3600.0)
        yield
    time.tzset()


def controller(folder: Path, *options: str) -> SessionController:
    """A controller whose engine is a process that tells a recording."""
    return SessionController(folder, [sys.executable, str(FAKE), str(folder), *options])


def ide(folder: Path, *options: str, run: bool = False) -> WarpsmithApp:
    """The application on a session."""
    return WarpsmithApp(SessionScreen(controller(folder, *options), run=run), folder.parent.parent, {})


async def until(pilot: Pilot[None], condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is so, and drawn."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)
            await pilot.pause()
    await pilot.pause()
