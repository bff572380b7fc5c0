"""The four views on code, one of them in sight: source, difference to the original, to the previous attempt, kernels.

A view is made in a thread, when it is first looked at after something it shows has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from textual.app import ComposeResult
from textual.containers import Container
from textual.worker import get_current_worker

from app import views
from app.controller import SessionController
from app.state import Judged
from app.text.code import CodeRows
from app.text.diff import Diff
from app.text.rows import row
from app.text.titles import KERNELS, ORIGINAL, PREVIOUS, SOURCE, VIEWS
from app.widgets.code import CodeView
from app.widgets.diff import DiffView

View = CodeView | DiffView
Made = CodeRows | Diff


class CodePane(Container):
    """Shows one of the four views for the selected attempt."""

    DEFAULT_CSS = """
    CodePane > * { display: none; height: 1fr; }
    CodePane > .-active { display: block; }
    """

    def __init__(self, controller: SessionController, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._controller = controller
        self._judged: Judged | None = None
        self._stale = set(VIEWS)
        self._shown_for: dict[str, int | None] = {}
        self.active = SOURCE

    def compose(self) -> ComposeResult:
        """Make the four views."""
        yield CodeView(id=SOURCE)
        yield DiffView(id=ORIGINAL)
        yield DiffView(id=PREVIOUS)
        yield CodeView(id=KERNELS)

    def on_mount(self) -> None:
        """Say that the source is being read."""
        self.view.show_rows([row(""), row("  ", ("Reading the session…", "$muted"))])
        self.look_at(SOURCE)

    @property
    def view(self) -> View:
        """The view in sight."""
        return cast(View, self.query_one(f"#{self.active}"))

    def look_at(self, name: str) -> None:
        """Bring a view into sight; make it if what it shows has changed."""
        had_focus = self.view.has_focus
        self.active = name
        for child in self.children:
            child.set_class(child.id == name, "-active")
        if had_focus:
            self.view.focus()
        self._make_active()

    def select(self, judged: Judged | None) -> None:
        """Show another attempt."""
        if judged is not self._judged:
            self._judged = judged
            self.outdate(ORIGINAL, PREVIOUS, KERNELS)

    def outdate(self, *names: str) -> None:
        """Note that what views show has changed."""
        self._stale |= set(names)
        self._make_active()

    def _make_active(self) -> None:
        if self.active in self._stale and self._controller.loaded:
            self._stale.discard(self.active)
            self.run_worker(self._make, group=self.active, exclusive=True, thread=True, exit_on_error=True)

    def _make(self) -> None:
        """Make the active view's content; runs in a thread."""
        name, judged, worker = self.active, self._judged, get_current_worker()
        made = self._maker(name, judged)()
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, name, judged, made)

    def _maker(self, name: str, judged: Judged | None) -> Callable[[], Made]:
        controller, state, files = self._controller, self._controller.state, self._controller.files
        if name == SOURCE:
            return lambda: views.source(controller.task, state, files)
        if judged is None:
            nothing = [row(""), row("  ", ("No attempt yet. What the agent changes will be here.", "$muted"))]
            return (lambda: CodeRows(nothing)) if name == KERNELS else (lambda: Diff(nothing))
        if name == ORIGINAL:
            return lambda: views.against_original(state, judged, files)
        if name == PREVIOUS:
            return lambda: views.against_previous(state, judged, files)
        return lambda: views.kernels(judged, files)

    def _show(self, name: str, judged: Judged | None, made: Made) -> None:
        number = judged.number if judged else None
        afresh = self._shown_for.get(name, -1) != number
        self._shown_for[name] = number
        view = self.query_one(f"#{name}")
        if isinstance(view, DiffView) and isinstance(made, Diff):
            view.show(made, afresh=afresh)
        elif isinstance(view, CodeView) and isinstance(made, CodeRows):
            view.show(made)
