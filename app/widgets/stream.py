"""The agent's stream: follows its end until somebody looks elsewhere, and draws only what was asked to be seen.

A recorded session may hold tens of thousands of blocks. Only the last of them are made into rows; earlier ones are added
when the view is scrolled to its top.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Resize

from app.blocks import Block, Call, Steps
from app.state import SessionState
from app.text.rows import Row, row
from app.text.stream import block_rows, foldable
from app.widgets.lines import LinesView

WINDOW = 60
MOST_DRAWN = 300


class StreamView(LinesView):
    """Shows a session's blocks, and the ones that are being streamed.

    Up and down go from block to block, Enter opens one, End goes back to following.
    """

    DEFAULT_CSS = "StreamView { overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "block(-1)", "Previous", show=False, id="stream.previous"),
        Binding("down", "block(1)", "Next", show=False, id="stream.next"),
        Binding("enter,space", "open_or_fold", "Open/fold", id="stream.toggle"),
        Binding("end,G", "follow", "Follow", show=False, id="stream.follow"),
    ]

    def __init__(self, state: SessionState, *, beginning: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._state = state
        self._first = 0
        self._drawn: dict[int, list[Row]] = {}
        self._starts: list[int] = []
        self._open: set[int] = set()
        self._cursor: int | None = None
        self._width = 0
        self.following = True
        self.beginning = beginning

    def show(self, state: SessionState, changed: frozenset[int]) -> None:
        """Show a state of which these blocks are new or changed."""
        if state is not self._state:
            self._state = state
            self._first = max(0, len(state.blocks) - WINDOW)
            self._drawn.clear()
        for index in changed:
            self._drawn.pop(index, None)
        if self.following and len(state.blocks) - self._first > MOST_DRAWN:
            self._forget_earlier()
        self._arrange()

    def _forget_earlier(self) -> None:
        """Keep the rows of the last blocks only; the others are made again when somebody scrolls up to them."""
        self._first = len(self._state.blocks) - WINDOW
        self._drawn = {index: rows for index, rows in self._drawn.items() if index >= self._first}
        self._strips.clear()

    def _arrange(self) -> None:
        """Put the rows of all blocks together; a block that did not change keeps its rows."""
        if self.columns != self._width:
            self._width = self.columns
            self._drawn.clear()
        rows: list[Row] = self._earlier()
        self._starts = []
        for index in range(self._first, len(self._state.blocks)):
            self._starts.append(len(rows))
            if index not in self._drawn:
                self._drawn[index] = self._make(self._state.blocks[index], index in self._open)
            rows.extend(self._drawn[index])
        for block in self._state.live:
            rows.extend(self._make(block, expanded=False))
        self.show_rows(rows or self._nothing())
        self._mark()
        if self.following:
            self.scroll_end(animate=False, immediate=True, force=True)

    def _make(self, block: Block, expanded: bool) -> list[Row]:
        judged = self._state.attempt(block.attempt) if isinstance(block, Call | Steps) else None
        return block_rows(block, self._width, expanded=expanded, judged=judged)

    def _earlier(self) -> list[Row]:
        return [row(("  ⋯ ", "$faint"), (f"{self._first} earlier, scroll up", "$faint"))] if self._first else []

    def _nothing(self) -> list[Row]:
        if self.beginning:
            return [row(""), row("  ", ("The agent begins as soon as its engine runs.", "$muted"))]
        lines = ("Nothing has happened yet.", "F5 lets the agent begin;", "i tells it something first.")
        return [row(""), *(row("  ", (line, "$muted")) for line in lines)]

    # --- moving ---------------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow when the end is in sight, and add earlier blocks when the beginning is."""
        super().watch_scroll_y(old_value, new_value)
        self.following = new_value >= self.max_scroll_y
        if new_value <= 0 and self._first and old_value > new_value:
            # Not at once: this may be called from within the scrolling that the loading has to correct.
            self.call_later(self._load_earlier)

    def _load_earlier(self) -> None:
        before = len(self._rows)
        self._first = max(0, self._first - WINDOW)
        self._arrange()
        self._strips.clear()
        self.scroll_to(y=len(self._rows) - before, animate=False)

    def on_resize(self, event: Resize) -> None:
        """Wrap again at the new width."""
        if event.size.width != self._width:
            self._arrange()
        elif self.following:
            self.scroll_end(animate=False, immediate=True, force=True)

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self._cursor = None
        self._mark()
        self.following = True
        self.scroll_end(animate=False)

    def action_block(self, direction: int) -> None:
        """Move the cursor to another block that can be opened; scroll where there is none further."""
        blocks = self._state.blocks
        start = self._cursor if self._cursor is not None else (len(blocks) if direction < 0 else self._first - 1)
        index = start + direction
        while self._first <= index < len(blocks) and not foldable(blocks[index]):
            index += direction
        if not self._first <= index < len(blocks):
            self.scroll_relative(y=direction, animate=False)
            return
        self._cursor = index
        self._mark()
        self.bring_into_view(self.current)

    def action_open_or_fold(self) -> None:
        """Open or fold the block under the cursor."""
        if self._cursor is not None:
            self._toggle(self._cursor)

    def row_clicked(self, index: int) -> None:
        """Open or fold the clicked block."""
        before = [number for number, start in enumerate(self._starts) if start <= index]
        if before and foldable(self._state.blocks[self._first + before[-1]]):
            self._cursor = self._first + before[-1]
            self._toggle(self._cursor)

    def opened(self) -> Call | None:
        """Return the call under the cursor."""
        block = self._state.blocks[self._cursor] if self._cursor is not None else None
        return block if isinstance(block, Call) else None

    def _toggle(self, index: int) -> None:
        self._open ^= {index}
        self._drawn.pop(index, None)
        self.following = False
        self._arrange()

    def _mark(self) -> None:
        if self._cursor is None or self._cursor < self._first:
            self.current = range(0)
            return
        place = self._cursor - self._first
        end = self._starts[place + 1] if place + 1 < len(self._starts) else len(self._rows)
        self.current = range(self._starts[place], end)
