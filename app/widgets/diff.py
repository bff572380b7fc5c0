"""A difference between two states, one hunk of which is the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from app.text.diff import Diff
from app.widgets.lines import LinesView

if TYPE_CHECKING:
    from agent.landing.hunks import Hunk


class DiffView(LinesView):
    """Shows a difference; ``]`` and ``[`` go from hunk to hunk, a click takes the hunk under it."""

    class Moved(Message):
        """Another hunk is the current one now, or there is none."""

        def __init__(self, view: DiffView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._diff = Diff()
        self._at = 0

    @property
    def hunk(self) -> Hunk | None:
        """The current hunk."""
        return self._diff.sections[self._at].hunk if self._diff.sections else None

    @property
    def hunks(self) -> list[Hunk]:
        """All hunks in order."""
        return [section.hunk for section in self._diff.sections]

    def show(self, drawn: Diff, *, afresh: bool) -> None:
        """Show a difference; unless it is another one (``afresh``), the current hunk and the position stay."""
        current = self.hunk
        self._diff = drawn
        names = [(section.hunk.file, section.hunk.id) for section in drawn.sections]
        key = (current.file, current.id) if current else None
        self._at = names.index(key) if key in names else min(self._at, max(0, len(names) - 1))
        if afresh and key not in names:
            self._at = 0
        self.show_rows(drawn.rows)
        self._mark(scroll=afresh)

    def copied(self) -> str:
        """Return the current hunk as the lines of a patch."""
        if self.hunk is None:
            return super().copied()
        old = "".join(f"-{line}" for line in self.hunk.old_lines)
        new = "".join(f"+{line}" for line in self.hunk.new_lines)
        sizes = f"-{self.hunk.old_start},{len(self.hunk.old_lines)} +{self.hunk.new_start},{len(self.hunk.new_lines)}"
        name = self.hunk.file
        return f"--- a/{name}\n+++ b/{name}\n@@ {sizes} @@\n{old}{new}"

    def step(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) hunk, and no further than the last and the first."""
        if self._diff.sections:
            self._at = min(len(self._diff.sections) - 1, max(0, self._at + direction))
            self._mark(scroll=True)

    def row_clicked(self, index: int) -> None:
        """Take the hunk under the click."""
        for number, section in enumerate(self._diff.sections):
            if section.start <= index < section.end:
                self._at = number
                self._mark(scroll=False)

    def place(self) -> tuple[str, int] | None:
        """Return the file of the current hunk and the new line it begins at."""
        return (self.hunk.file, self.hunk.new_start) if self.hunk else None

    def _mark(self, *, scroll: bool) -> None:
        sections = self._diff.sections
        self.current = range(sections[self._at].start, sections[self._at].end) if sections else range(0)
        if scroll:
            self.bring_into_view(self.current)
        self.post_message(self.Moved(self))
