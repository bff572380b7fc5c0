"""The line at the top (what is worked on, what happens now) and the one at the bottom (with what)."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widget import Widget

from app.text.status import Piece, joined


class TopLine(Widget):
    """Names what is worked on, and says what is going on.

    Args:
        doing: Returns what is going on, most important first.
        id: The widget's.
    """

    DEFAULT_CSS = "TopLine { height: 1; background: $panel; padding: 0 1; }"

    def __init__(self, doing: Callable[[], list[Piece]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._doing = doing
        self.title = ""

    def render(self) -> Content:
        """Draw the line; the title gives way where both do not fit."""
        width = self.size.width
        right = joined(self._doing(), max(16, width - 24), cut=True)
        name = f"◆ {self.title}"
        room = width - right.cell_length - 2
        left = Content.styled(name if len(name) <= room else name[: max(1, room - 1)] + "…", "bold $accent")
        return left + Content(" " * max(1, width - left.cell_length - right.cell_length)) + right


class StatusLine(Widget):
    """Says with what the work is done, and what it has cost.

    Args:
        place: Returns that; what can be left out comes last.
        id: The widget's.
    """

    DEFAULT_CSS = "StatusLine { height: 1; padding: 0 1; }"

    def __init__(self, place: Callable[[], list[Piece]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._place = place

    def render(self) -> Content:
        """Draw the line."""
        return joined(self._place(), self.size.width)
