"""The verdict of the selected attempt; before there is one, what was measured of the original."""

from __future__ import annotations

from collections.abc import Callable

from app.text.rows import Row, row
from app.widgets.lines import LinesView


class VerdictPanel(LinesView):
    """Shows rows that are made for its width."""

    DEFAULT_CSS = "VerdictPanel { overflow-x: hidden; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._make: Callable[[int], list[Row]] | None = None
        self._subject: object = None

    def show(self, subject: object, make: Callable[[int], list[Row]] | None) -> None:
        """Show what ``make`` returns for the width; go to the top if the subject is another one."""
        self._make = make
        self._draw()
        if subject != self._subject:
            self._subject = subject
            self.scroll_home(animate=False)

    def _draw(self) -> None:
        nothing = [row(""), row("  ", ("The judge has not measured anything yet.", "$muted"))]
        self.show_rows(self._make(self.columns) if self._make else nothing)

    def on_resize(self) -> None:
        """Draw again at the new width."""
        self._draw()
