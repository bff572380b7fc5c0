"""The banner above everything else: a problem, where it is, and the next step."""

from __future__ import annotations

from app.state import SessionState
from app.text.status import problem_rows
from app.widgets.lines import LinesView


class Banner(LinesView, can_focus=False):
    """Shows the state's problem, and nothing when there is none."""

    DEFAULT_CSS = """
    Banner {
        height: auto; max-height: 9; display: none; overflow-x: hidden; scrollbar-gutter: auto;
        background: $removed; border-left: outer $error; padding: 0 1;
    }
    Banner.-shown { display: block; }
    """

    def __init__(self, state: SessionState, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._state = state

    def show(self, state: SessionState) -> None:
        """Show the state's problem."""
        self._state = state
        self.set_class(state.problem is not None, "-shown")
        self._draw()

    def _draw(self) -> None:
        self.show_rows(problem_rows(self._state, max(20, self.app.size.width - 6)))
        self.refresh(layout=True)

    def on_resize(self) -> None:
        """Wrap again at the new width."""
        if self._state.problem is not None:
            self.show_rows(problem_rows(self._state, max(20, self.app.size.width - 6)))
