"""One line of tabs."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget


class TabStrip(Widget):
    """Shows the names of views, the active one in brackets and bold; a click picks one."""

    DEFAULT_CSS = "TabStrip { height: 1; width: 1fr; }"
    active: reactive[str] = reactive("")
    names: reactive[dict[str, str]] = reactive(dict[str, str])

    class Picked(Message):
        """A view was picked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, names: Mapping[str, str], active: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.set_reactive(TabStrip.names, dict(names))
        self.set_reactive(TabStrip.active, active)

    def render(self) -> Content:
        """Draw the line."""
        pieces = [
            Content.styled(self._text(name), "bold $accent" if name == self.active else "$muted") for name in self.names
        ]
        return Content(" ").join(pieces)

    def on_click(self, event: Click) -> None:
        """Pick the view whose name is under the click."""
        position = event.get_content_offset(self)
        start = 0
        for name in self.names:
            end = start + len(self._text(name))
            if position is not None and start <= position.x < end:
                self.post_message(self.Picked(name))
            start = end + 1

    def _text(self, name: str) -> str:
        return f"[{self.names[name]}]" if name == self.active else f" {self.names[name]} "
