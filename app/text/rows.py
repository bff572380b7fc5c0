"""A row: one line of styled text as it stands on the screen."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content


@dataclass(frozen=True)
class Row:
    """One line of a view.

    Attributes:
        content: The styled text.
        fill: Style under the whole line, to the edge of the view.
        gutter: How many characters at its start are not part of what is copied (line numbers, signs).
    """

    content: Content
    fill: str = ""
    gutter: int = 0

    @property
    def copied(self) -> str:
        """The text as it is copied."""
        return self.content.plain[self.gutter :]


def row(*parts: str | tuple[str, str] | Content, fill: str = "", gutter: int = 0) -> Row:
    """Assemble a row from texts, styled texts ``(text, style)`` and contents."""
    return Row(Content.assemble(*parts), fill, gutter)


def wrapped(content: Content, width: int, *, first: str = "", rest: str = "", fill: str = "") -> list[Row]:
    """Wrap a content at a width, with a prefix before its first and before its other lines."""
    room = max(8, width - len(rest))
    lines = content.wrap(room)
    return [Row(Content(first if index == 0 else rest) + line, fill) for index, line in enumerate(lines)]
