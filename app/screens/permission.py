"""Asks whether a call may run: what it does, why, and choices that say what they allow before they are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen

from agent.events import PermissionAsked
from app.screens.choice import FRAME, WIDEST
from app.screens.reason import ReasonScreen
from app.text.permission import LETTERS, question_rows, question_title
from app.widgets.choices import Choices
from app.widgets.lines import LinesView
from app.widgets.rowlist import RowList

GUARD_SECONDS = 0.5
"""So long after it was drawn, or after the terminal got the keyboard, the window takes no key and no click."""
KEYS = "a number or letter points · Enter takes · v shows all · Esc later"


@dataclass(frozen=True)
class Answer:
    """The choice taken; ``reason`` is why the call was rejected, where it was."""

    scope: str
    reason: str = ""


class Lettered(Choices):
    """Choices that a letter points at too."""

    def __init__(self, choices: list[Mapping[str, str]]) -> None:
        self._letters = [LETTERS.get(choice["scope"], "") for choice in choices]
        texts = (f"{letter}  {choice['text']}" for letter, choice in zip(self._letters, choices, strict=True))
        super().__init__(list(texts))

    def on_key(self, event: Key) -> None:
        """Point at the choice whose number or letter is pressed."""
        super().on_key(event)
        if event.character in self._letters:
            self.point(self._letters.index(event.character))
            event.stop()


class PermissionScreen(ModalScreen[Answer | None]):
    """Returns the answer, or None if it was put off; the call waits then."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    PermissionScreen { align: center bottom; background: $background 30%; }
    PermissionScreen > Vertical {
        width: 100%; max-width: 92; height: auto; max-height: 95%;
        background: $surface; border: round $warning; border-title-color: $warning; border-title-style: bold;
        border-subtitle-color: $muted; padding: 1 2;
    }
    PermissionScreen LinesView { background: $surface; }
    PermissionScreen #asked { height: auto; max-height: 55vh; overflow-x: hidden; margin: 0 0 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Later", id="permission.leave"),
        Binding("v", "whole", "Show all", id="permission.whole"),
    ]

    def __init__(self, asked: PermissionAsked) -> None:
        super().__init__()
        self._asked = asked
        self._whole = False
        self._armed = False

    @property
    def call_id(self) -> str:
        """The call it asks about."""
        return self._asked.call_id

    def compose(self) -> ComposeResult:
        """Make the window."""
        with Vertical() as window:
            window.border_title = question_title(self._asked)
            yield LinesView(id="asked")
            yield Lettered(list(self._asked.choices))

    def on_mount(self) -> None:
        """Show the question, and take keys once it has been seen."""
        self._show()
        self.watch(self.app, "app_focus", self._guard)

    def _guard(self) -> None:
        """Take nothing for a moment: a key or click on its way was meant for what was there before."""
        self._armed = False
        self.query_one(Lettered).disabled = True
        self.query_one(Vertical).border_subtitle = ""
        if self.app.app_focus:
            self.call_after_refresh(self.set_timer, GUARD_SECONDS, self._arm)

    def _arm(self) -> None:
        if not self.app.app_focus:
            return
        self._armed = True
        choices = self.query_one(Lettered)
        choices.disabled = False
        choices.focus()
        self.query_one(Vertical).border_subtitle = KEYS

    def _show(self) -> None:
        width = min(WIDEST, self.app.size.width) - FRAME
        self.query_one("#asked", LinesView).show_rows(question_rows(self._asked, width, whole=self._whole))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Do nothing at all in the first moment."""
        return self._armed if action in ("leave", "whole") else super().check_action(action, parameters)

    def on_row_list_taken(self, event: RowList.Taken) -> None:
        """Return the choice; of a rejection the reason is asked first."""
        scope = self._asked.choices[event.index]["scope"]
        if scope == "reject":
            self.app.push_screen(ReasonScreen(f"this call of {self._asked.tool}"), self._reject)
        else:
            self.dismiss(Answer(scope))

    def _reject(self, reason: str | None) -> None:
        if reason is not None:
            self.dismiss(Answer("reject", reason))

    def action_whole(self) -> None:
        """Show all of what is asked, to be scrolled with the arrows, or the beginning again."""
        self._whole = not self._whole
        self._show()
        target = self.query_one("#asked") if self._whole else self.query_one(Lettered)
        target.focus()

    def action_leave(self) -> None:
        """Go from the whole back to the choices, else put the answer off."""
        if self._whole:
            self.action_whole()
        else:
            self.dismiss(None)
