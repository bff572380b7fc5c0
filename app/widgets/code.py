"""A file, or several files one after the other, with line numbers and messages under their lines."""

from __future__ import annotations

from collections.abc import Sequence

from app.text.code import CodeRows
from app.widgets.lines import LinesView


class CodeView(LinesView):
    """Shows source text; ``]`` and ``[`` go from part to part."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._parts: Sequence[int] = ()
        self._sources: Sequence[tuple[str, int]] = ()

    def show(self, code: CodeRows) -> None:
        """Show rows; keep the position unless they name what to look at."""
        self.show_rows(code.rows)
        self._parts, self._sources = code.parts, code.sources
        if code.look_at is not None:
            self.call_after_refresh(self.scroll_to, y=max(0, code.look_at - 1), animate=False)

    def step(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) part."""
        top = self.scroll_offset.y
        ahead = [row for row in self._parts if (row > top if direction > 0 else row < top)]
        if ahead:
            self.scroll_to(y=ahead[0] if direction > 0 else ahead[-1], animate=False)

    def place(self) -> tuple[str, int] | None:
        """Return the file and the line at the top of what is in sight."""
        top = self.scroll_offset.y
        before = [source for source in self._sources if source[1] <= top + 1] or self._sources[:1]
        return (before[-1][0], max(1, top - before[-1][1] + 1)) if before else None
