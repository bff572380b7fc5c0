"""A list of rows, one of which is pointed at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from app.text.rows import Row
from app.widgets.lines import LinesView


class RowList(LinesView):
    """Shows items below an optional heading; the arrow keys and the mouse point at one, Enter takes it."""

    LINE_CURSOR = True
    DEFAULT_CSS = "RowList { overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "point(-1)", "Up", show=False, id="list.up"),
        Binding("down,j", "point(1)", "Down", show=False, id="list.down"),
        Binding("pageup", "point(-10)", "Page up", show=False, id="list.page_up"),
        Binding("pagedown", "point(10)", "Page down", show=False, id="list.page_down"),
        Binding("home,g", "point(-100000)", "First", show=False, id="list.first"),
        Binding("end,G", "point(100000)", "Last", show=False, id="list.last"),
        Binding("enter", "take", "Take", show=False, id="list.take"),
    ]

    class Pointed(Message):
        """Another item is pointed at by the developer."""

        def __init__(self, rows: RowList, index: int) -> None:
            super().__init__()
            self.rows = rows
            self.index = index

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

    class Taken(Pointed):
        """An item was taken."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._heading: list[Row] = []
        self._count = 0
        self._at = 0

    @property
    def at(self) -> int:
        """Index of the item pointed at."""
        return self._at

    def show_items(self, items: Sequence[Row], *, heading: Row | None = None) -> None:
        """Show items, with as much of the position kept as there is."""
        self._heading = [heading] if heading is not None else []
        self._count = len(items)
        self.show_rows([*self._heading, *items])
        self.point(self._at)

    def point(self, index: int) -> None:
        """Point at an item, without a message."""
        self._at = max(0, min(self._count - 1, index))
        row = self._at + len(self._heading)
        self.current = range(row, row + 1) if self._count else range(0)
        self.bring_into_view(self.current, above=len(self._heading))

    def action_point(self, by: int) -> None:
        """Point at an item further up or down."""
        before = self._at
        self.point(self._at + by)
        if self._count and self._at != before:
            self.post_message(self.Pointed(self, self._at))

    def action_take(self) -> None:
        """Take the item pointed at."""
        if self._count:
            self.post_message(self.Taken(self, self._at))

    def row_clicked(self, index: int) -> None:
        """Point at the clicked item; take it if it was pointed at already."""
        item = index - len(self._heading)
        if 0 <= item < self._count and item == self._at:
            self.action_take()
        elif 0 <= item < self._count:
            self.action_point(item - self._at)
