"""The line at the top (what is worked on, what happens now) and the one at the bottom (with what)."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from app.clock import now
from app.state import SessionState
from app.text.status import activity, joined, place


class TopLine(Widget):
    """Names the module, and says what the session is doing."""

    DEFAULT_CSS = "TopLine { height: 1; background: $panel; padding: 0 1; }"

    def __init__(self, state: SessionState, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.state = state
        self.title = ""

    def render(self) -> Content:
        """Draw the line; the title gives way where both do not fit."""
        width = self.size.width
        right = joined(activity(self.state, now()), max(16, width - 24))
        name = f"◆ {self.title}"
        room = width - right.cell_length - 2
        left = Content.styled(name if len(name) <= room else name[: max(1, room - 1)] + "…", "bold $accent")
        return left + Content(" " * max(1, width - left.cell_length - right.cell_length)) + right


class StatusLine(Widget):
    """Says with which model, on which device and how isolated the session runs, and what it has cost."""

    DEFAULT_CSS = "StatusLine { height: 1; padding: 0 1; }"

    def __init__(self, state: SessionState, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.state = state

    def render(self) -> Content:
        """Draw the line."""
        return joined(place(self.state), self.size.width)
