"""Asks why something is rejected, in one line that may stay empty."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from app.text.plain import clean


class ReasonScreen(ModalScreen[str | None]):
    """Returns the reason, empty if none was given, or None if nothing is to be rejected after all."""

    DEFAULT_CSS = """
    ReasonScreen { align: center bottom; background: $background 30%; }
    ReasonScreen > Vertical {
        width: 100%; height: auto; background: $surface; border: round $accent;
        border-title-color: $accent; border-title-style: bold; padding: 0 1;
    }
    ReasonScreen Input, ReasonScreen Input:focus { border: none; height: 1; padding: 0; background: $surface; }
    ReasonScreen Static { color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Do not reject", id="reason.leave")]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        """Make the line."""
        with Vertical() as dialog:
            dialog.border_title = Content(clean(f"Reject {self._what}"))
            yield Input(placeholder="Why? The agent is told. It may stay empty.", id="reason")
            yield Static("Enter rejects · Esc goes back")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the reason."""
        event.stop()
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Return that nothing is rejected."""
        self.dismiss(None)
