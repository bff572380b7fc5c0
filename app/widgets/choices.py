"""A short list of numbered choices."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Key

from app.text.rows import row
from app.widgets.rowlist import RowList


class Choices(RowList):
    """Shows choices; a number or an arrow key points at one, and only Enter or a second click takes it.

    So a key that was meant for what was on the screen a moment ago never decides anything: the first choice, which is
    pointed at when the list appears, must be the safe one.
    """

    DEFAULT_CSS = "Choices { height: auto; scrollbar-gutter: auto; }"

    def __init__(self, texts: Sequence[str], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._texts = list(texts)

    def on_mount(self) -> None:
        """Draw the choices."""
        self._draw()

    def on_key(self, event: Key) -> None:
        """Point at the choice whose number is pressed."""
        if (event.character or "").isdigit():
            self.point(int(event.character or 0) - 1)

    def point(self, index: int) -> None:
        """Point at a choice, and show that with a sign."""
        super().point(index)
        self._draw()

    def _draw(self) -> None:
        texts = enumerate(self._texts)
        rows = [row(" ▸ " if n == self.at else "   ", (f"{n + 1}  ", "bold"), text) for n, text in texts]
        self._count = len(rows)
        self.show_rows(rows)
        self.current = range(self.at, self.at + 1)
