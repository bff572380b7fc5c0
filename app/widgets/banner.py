"""The banner above everything else: a problem, where it is, and the next step."""

from __future__ import annotations

from app.state import Problem
from app.text.status import problem_rows
from app.widgets.lines import LinesView


class Banner(LinesView, can_focus=False):
    """Shows a problem, and nothing when there is none."""

    DEFAULT_CSS = """
    Banner {
        height: auto; max-height: 9; display: none; overflow-x: hidden; scrollbar-gutter: auto;
        background: $removed; border-left: outer $error; padding: 0 1;
    }
    Banner.-shown { display: block; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._problem: Problem | None = None

    def show(self, problem: Problem | None) -> None:
        """Show a problem, or that there is none any more."""
        self._problem = problem
        self.set_class(problem is not None, "-shown")
        self._draw()
        self.refresh(layout=True)

    def _draw(self) -> None:
        self.show_rows(problem_rows(self._problem, max(20, self.app.size.width - 6)))

    def on_resize(self) -> None:
        """Wrap again at the new width."""
        if self._problem is not None:
            self._draw()
