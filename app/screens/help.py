"""The help: every key of the screen below, what the signs mean, and how to get out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from app.text.rows import Row, row, wrapped
from app.widgets.lines import LinesView

_NAMES = {
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "question_mark": "?",
    "escape": "Esc",
    "ctrl+q": "^q",
    "ctrl+p": "^p",
    "ctrl+c": "^c",
    "enter": "Enter",
    "shift+tab": "Shift-Tab",
}
_WHAT = {
    "session.run": "let the agent begin, or go on after it ended",
    "session.stop": "stop the agent; what was done so far is kept",
    "session.steer": "tell the agent something; it reads it before its next turn",
    "session.answer": "answer what the agent asks, where that was put off",
    "session.mode": "next permission mode: read-only, ask, auto",
    "session.land": "land the selected attempt in your project: what will be written is said first",
    "session.undo": "take the last landing back, exactly",
    "hunk.next": "next hunk; among the kernels, next file",
    "hunk.previous": "previous hunk",
    "hunk.accept": "accept the hunk (what is not rejected lands)",
    "hunk.reject": "reject the hunk, with a reason that the agent is told",
    "hunk.accept_file": "accept every hunk of the file",
    "hunk.reject_file": "reject every hunk of the file",
    "session.view": "next view: source, diff to the original, diff to the previous attempt, kernels",
    "session.agent": "the agent's stream; arrows go from block to block, Enter opens one, End follows again",
    "session.attempts": "the attempts; arrows select one",
    "session.verdict": "the verdict of the selected attempt",
    "session.edit": "the workspace's file in your editor",
    "session.open": "your own file, or a clipped output in full, in your editor",
    "session.copy": "copy the current hunk as a patch, or all that the pane shows",
    "session.dismiss": "take a problem off the screen",
    "session.search": "several agents side by side on this module; from one of their sessions: its search",
    "session.to_search": "back to the search, which goes on meanwhile",
    "search.run": "let the search go on",
    "search.stop": "stop all agents; what was done so far is kept",
    "search.open": "open the session of the agent pointed at; S comes back",
    "app.sessions": "all sessions: open one, go on with it",
    "app.help": "this help",
    "app.quit": "leave; the session is on disk at every step",
}
_MORE = (
    ("^c", "copy what is selected with the mouse; never ends anything"),
    ("^p", "palette: everything by name, and the colour themes"),
    ("Tab", "from pane to pane"),
    ("Shift-drag", "select with the terminal's own selection"),
)
_SIGNS = (
    ("✓ ✗ ·", "passed, failed, not run (b g v p: build, guard, verify, profile)"),
    ("★", "the best attempt"),
    ("▌", "the current hunk or block"),
    ("├●┤ ┊", "a speedup with its 95 % interval, and where it would be as fast"),
    ("reward", "3 faster than compile and eager, 2 than eager, 1 correct, −1 not, – not judged"),
)


class HelpScreen(ModalScreen[None]):
    """Shows keys and signs; Esc closes it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > Vertical {
        width: 90%; max-width: 96; height: 90%; max-height: 44; background: $surface; padding: 0 1;
        border: round $accent; border-title-color: $accent; border-title-style: bold; border-subtitle-color: $muted;
    }
    HelpScreen LinesView { background: $surface; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f1,question_mark", "dismiss", "Close", id="help.close")]

    def __init__(self, bindings: Iterable[Binding], keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._keys = {binding.id or "": _shown(keymap.get(binding.id or "", binding.key)) for binding in bindings}

    def compose(self) -> ComposeResult:
        """Make the window."""
        with Vertical() as window:
            window.border_title = "Help"
            window.border_subtitle = "Esc closes"
            yield LinesView()

    def on_mount(self) -> None:
        """Fill it."""
        view = self.query_one(LinesView)
        view.focus()
        self.call_after_refresh(lambda: view.show_rows(self._rows(view.columns)))

    def _rows(self, width: int) -> list[Row]:
        keys = [(self._keys[name], what) for name, what in _WHAT.items() if name in self._keys]
        return [
            row(("Keys", "bold $primary")),
            *_table([*keys, *_MORE], width),
            row(""),
            row(("Signs", "bold $primary")),
            *_table(_SIGNS, width),
        ]


def _table(lines: Iterable[tuple[str, str]], width: int) -> list[Row]:
    rows: list[Row] = []
    for key, what in lines:
        first, *rest = wrapped(Content(what), width, first=" " * 13, rest=" " * 13)
        head = Content.assemble("  ", (f"{key:<11}", "bold $accent"))
        rows += [Row(head + first.content[13:]), *rest]
    return rows


def _shown(keys: str) -> str:
    return " ".join(
        _NAMES.get(key, key.upper() if key[:1] == "f" and key[1:].isdigit() else key) for key in keys.split(",")
    )
