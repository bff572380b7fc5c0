"""A form: labelled fields of one line each, which Enter hands over once none is wrong."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from sandbox.errors import WarpsmithError


class FormScreen(ModalScreen[Path | None]):
    """Returns the folder that was made of what was filled in, or None.

    Attributes:
        FIELDS: The fields and what they are called.
        ENTER: What Enter does.

    Args:
        title: Stands over the form.
        head: A line above the fields.
        hints: What each field takes.
        values: What each holds at first.
    """

    FIELDS: ClassVar[dict[str, str]]
    ENTER: ClassVar[str] = "opens"
    DEFAULT_CSS = """
    FormScreen { align: center middle; }
    FormScreen > VerticalScroll {
        width: 94%; max-width: 104; height: auto; max-height: 100%; background: $surface; padding: 0 2;
        border: round $accent; border-title-color: $accent; border-title-style: bold; border-subtitle-color: $muted;
    }
    FormScreen .label { color: $muted; margin: 1 0 0 0; }
    FormScreen Input, FormScreen Input:focus { border: none; height: 1; padding: 0 1; background: $panel; }
    FormScreen Input:focus { background: $block-cursor-background; }
    FormScreen #head { color: $text-primary; max-height: 2; }
    FormScreen #wrong { color: $text-error; margin: 1 0 0 0; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Go back", id="form.leave")]

    def __init__(self, title: str, head: str, hints: Mapping[str, str], values: Mapping[str, str]) -> None:
        super().__init__()
        self._title = title
        self._head = head
        self._hints = hints
        self._values = values

    def compose(self) -> ComposeResult:
        """Make the form, filled as far as is known."""
        with VerticalScroll() as form:
            form.border_title = Content(self._title)
            form.border_subtitle = f"Enter {self.ENTER} · Tab next field · Esc goes back"
            yield Static(self._head, id="head", markup=False)
            for name, label in self.FIELDS.items():
                yield Static(f"{label}  {self._hints[name]}", classes="label", id=f"label-{name}", markup=False)
                yield Input(self._values[name], id=name, select_on_focus=False)
            yield Static("", id="wrong", markup=False)

    def value(self, name: str) -> str:
        """Return what a field holds."""
        return self.query_one(f"#{name}", Input).value.strip()

    @abstractmethod
    def error(self, name: str) -> str:
        """Return what is wrong with a field, or an empty text."""

    @abstractmethod
    def make(self, values: Mapping[str, str]) -> Path:
        """Make what was asked for; runs in a thread.

        Raises:
            WarpsmithError: It cannot be made.
        """

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand over, or go to the first field that is wrong."""
        event.stop()
        for name, label in self.FIELDS.items():
            if error := self.error(name):
                self.query_one(f"#{name}", Input).focus()
                self._complain(f"{label}: {error}")
                return
        try:
            self.dismiss(await asyncio.to_thread(self.make, {name: self.value(name) for name in self.FIELDS}))
        except WarpsmithError as error:
            self._complain(str(error))

    def _complain(self, text: str) -> None:
        self.query_one("#wrong", Static).update(f"✗ {text}")

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)
