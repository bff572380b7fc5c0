"""The list of sessions: open one, and go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from agent.session import SessionSummary, list_sessions
from app.text.rows import row
from app.text.sessions import session_heading, session_row
from app.widgets.rowlist import RowList


class SessionsScreen(ModalScreen[Path | None]):
    """Returns the folder of the session to open, or None."""

    DEFAULT_CSS = """
    SessionsScreen { align: center middle; }
    SessionsScreen > Vertical {
        width: 94%; height: 80%; background: $surface; padding: 0 1;
        border: round $accent; border-title-color: $accent; border-title-style: bold; border-subtitle-color: $muted;
    }
    SessionsScreen RowList { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "Close", id="sessions.close")]

    def __init__(self, home: Path, here: Path | None) -> None:
        super().__init__()
        self._here = here.resolve() if here else None
        self._home = home
        self._found: list[SessionSummary] | None = None

    def compose(self) -> ComposeResult:
        """Make the window."""
        with Vertical() as window:
            window.border_title = "Sessions"
            window.border_subtitle = "Enter opens · Esc closes"
            yield RowList()

    def on_mount(self) -> None:
        """Read the sessions in a thread."""
        rows = self.query_one(RowList)
        rows.focus()
        rows.show_rows([row(""), row("  ", ("Reading…", "$muted"))])
        self.run_worker(self._read, thread=True)

    def _read(self) -> None:
        found = list_sessions(self._home)
        self.app.call_from_thread(self._show, found)

    def _show(self, found: list[SessionSummary]) -> None:
        self._found = found
        rows = self.query_one(RowList)
        if not found:
            nothing = f"There is no session yet in {self._home}. Esc closes this list."
            rows.show_rows([row(""), row("  ", (nothing, "$muted"))])
            return
        width = rows.columns
        lines = [session_row(session, width, here=session.folder.resolve() == self._here) for session in found]
        rows.show_items(lines, heading=session_heading(width))

    def on_row_list_taken(self, event: RowList.Taken) -> None:
        """Return the session's folder."""
        if self._found:
            self.dismiss(self._found[event.index].folder)

    def on_resize(self) -> None:
        """Draw again at the new width."""
        if self._found is not None:
            self.call_after_refresh(self._show, self._found)

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)
