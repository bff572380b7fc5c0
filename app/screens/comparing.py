"""End to end after a landing: the developer's script is run again, and what came of it is said."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from app.itself import own_command
from app.text.plain import clean
from app.text.rows import Row, wrapped
from app.widgets.lines import LinesView

KEPT_ROWS = 500


def compare_command(recording: Path, home: Path) -> list[str]:
    """Return the command that compares a recording with the script as it is now."""
    return own_command("hotspots", "--compare", str(recording), home=home)


class ComparingScreen(ModalScreen[None]):
    """Shows the run as it goes on, then the comparison; leaving ends the run."""

    DEFAULT_CSS = """
    ComparingScreen { align: center middle; }
    ComparingScreen > Vertical {
        width: 94%; height: 80%; background: $surface; padding: 0 1;
        border: round $accent; border-title-color: $accent; border-title-style: bold; border-subtitle-color: $muted;
    }
    ComparingScreen LinesView { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "Close", id="comparing.close")]

    def __init__(self, command: list[str]) -> None:
        super().__init__()
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._rows: list[Row] = []

    def compose(self) -> ComposeResult:
        """Make the window."""
        with Vertical() as window:
            window.border_title = "Your script again, end to end"
            window.border_subtitle = "Esc ends it"
            yield LinesView()

    def on_mount(self) -> None:
        """Start the run."""
        self.query_one(LinesView).focus()
        self.run_worker(self._run(), exit_on_error=False)

    async def _run(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        told = asyncio.create_task(self._process.stdout.read())
        while line := await _line(self._process.stderr):
            self._add(line, "$muted")
        for line in (await told).decode("utf-8", "replace").splitlines():
            self._add(line, "")
        await self._process.wait()
        self.query_one(Vertical).border_subtitle = "Esc closes"

    def _add(self, text: str, style: str) -> None:
        view = self.query_one(LinesView)
        shown = Content.styled(clean(text), style) if style else Content(clean(text))
        self._rows = [*self._rows, *wrapped(shown, max(20, view.columns))][-KEPT_ROWS:]
        view.show_rows(self._rows)
        view.scroll_end(animate=False)

    def on_unmount(self) -> None:
        """End a run that still goes on; it ends the script politely."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def action_leave(self) -> None:
        """Close the window."""
        self.dismiss(None)


async def _line(stream: asyncio.StreamReader) -> str:
    """Return the next line, empty at the end; one that is too long comes in pieces."""
    try:
        return (await stream.readuntil(b"\n")).decode("utf-8", "replace").rstrip("\n") or " "
    except asyncio.IncompleteReadError as error:
        return error.partial.decode("utf-8", "replace")
    except asyncio.LimitOverrunError as error:
        return (await stream.read(error.consumed)).decode("utf-8", "replace")
