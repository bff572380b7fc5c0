"""Asks before something is done: what will happen, and numbered choices, the safe one first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from app.text.rows import Row
from app.widgets.choices import Choices
from app.widgets.lines import LinesView
from app.widgets.rowlist import RowList

WIDEST, FRAME = 92, 8


class Told(LinesView):
    """What will happen, row by row."""

    DEFAULT_CSS = "Told { height: auto; max-height: 45vh; overflow-x: hidden; margin: 0 0 1 0; }"

    def __init__(self, make: Callable[[int], list[Row]]) -> None:
        super().__init__()
        self._make = make

    def on_mount(self) -> None:
        """Show the rows as wide as the window will be."""
        self.show_rows(self._make(min(WIDEST, self.app.size.width * 9 // 10) - FRAME))


class ChoiceScreen(ModalScreen[int]):
    """Returns the index of the choice taken; Escape takes the first, which must be the safe one."""

    DEFAULT_CSS = """
    ChoiceScreen { align: center middle; }
    ChoiceScreen > Vertical {
        width: 90%; max-width: 92; height: auto; max-height: 90%;
        background: $surface; border: round $accent; border-title-color: $accent; border-title-style: bold;
        border-subtitle-color: $muted; padding: 1 2;
    }
    ChoiceScreen LinesView { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Go back", id="choice.leave")]

    def __init__(self, title: str, told: Callable[[int], list[Row]], choices: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._told = told
        self._choices = choices

    def compose(self) -> ComposeResult:
        """Make the dialog."""
        with Vertical() as dialog:
            dialog.border_title = self._title
            dialog.border_subtitle = "a number points · Enter takes · Esc goes back"
            yield Told(self._told)
            yield Choices(self._choices)

    def on_mount(self) -> None:
        """Let the choices have the keys."""
        self.query_one(Choices).focus()

    def on_row_list_taken(self, event: RowList.Taken) -> None:
        """Return the choice."""
        self.dismiss(event.index)

    def action_leave(self) -> None:
        """Return the safe choice."""
        self.dismiss(0)
