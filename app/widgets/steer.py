"""The line in which the developer tells the agent something."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

HINT = "Tell the agent something (i), Enter sends"
WATCHED = "A search drives this agent, and nothing can be said to it (S goes back to the search)"


class SteerInput(Input):
    """Enter sends; Up and Down go through what was sent before; what is typed survives everything but sending."""

    DEFAULT_CSS = """
    SteerInput, SteerInput:focus { border: none; height: 1; padding: 0; background: transparent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(-1)", "Earlier", show=False, id="steer.earlier"),
        Binding("down", "recall(1)", "Later", show=False, id="steer.later"),
    ]

    class Said(Message):
        """The developer said something to the agent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(placeholder=HINT, id=id, select_on_focus=False)
        self._sent: list[str] = []
        self._at = 0

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Send what was typed."""
        event.stop()
        text = self.value.strip()
        if text:
            self._sent.append(text)
            self._at = len(self._sent)
            self.value = ""
            self.post_message(self.Said(text))

    def action_recall(self, by: int) -> None:
        """Put an earlier or later message back into the line."""
        at = min(len(self._sent), max(0, self._at + by))
        if at != self._at:
            self._at = at
            self.value = self._sent[at] if at < len(self._sent) else ""
            self.cursor_position = len(self.value)
