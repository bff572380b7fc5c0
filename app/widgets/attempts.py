"""The table of attempts: one row each, the best with a star, one of them selected."""

from __future__ import annotations

from textual.message import Message

from app.state import SessionState
from app.text.attempt import table_heading, table_row
from app.text.rows import Row, row
from app.widgets.rowlist import RowList


class AttemptsTable(RowList):
    """Shows the attempts; pointing at one selects it.

    Until somebody does, the last is selected while the agent works, and the best once it rests.
    """

    class Selected(Message):
        """Another attempt is selected."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, state: SessionState, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._state = state
        self._chosen: int | None = None
        self._selected: int | None = None

    def show(self, state: SessionState) -> None:
        """Show a state's attempts, and select one unless one was chosen."""
        self._state = state
        self._draw()
        numbers = [judged.number for judged in state.attempts]
        number = self._chosen if self._chosen in numbers else self._natural()
        if number is not None:
            self.point(numbers.index(number))
            self._select(number)

    def _natural(self) -> int | None:
        best, attempts = self._state.best(), self._state.attempts
        if best is not None and not self._state.running:
            return best.number
        return attempts[-1].number if attempts else None

    def _select(self, number: int) -> None:
        if number != self._selected:
            self._selected = number
            self.post_message(self.Selected(number))

    def on_row_list_pointed(self, event: RowList.Pointed) -> None:
        """Select what is pointed at; pointing at the last goes back to following."""
        event.stop()
        attempts = self._state.attempts
        number = attempts[event.index].number
        self._chosen = None if self._state.running and event.index == len(attempts) - 1 else number
        self._select(number)

    def _draw(self) -> None:
        width, best = self.columns, self._state.best()
        rows = [table_row(judged, width, best=judged is best) for judged in self._state.attempts]
        if rows:
            self.show_items(rows, heading=Row(table_heading(width)))
        else:
            self.show_rows([row(""), row("  ", ("No attempt yet: the agent's first check makes one.", "$muted"))])

    def on_resize(self) -> None:
        """Draw again at the new width."""
        self._draw()
