"""Picks a module below a folder: files are read and never imported."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import Screen
from textual.widgets import Footer, Input, Static
from textual.worker import get_current_worker

from agent.settings import Settings
from app.screens.task_form import TaskFormScreen
from app.text.code import CodeRows, code_rows
from app.text.plain import clean, clipped, shown_path
from app.text.rows import Row, row
from app.views import class_lines
from app.widgets.code import CodeView
from app.widgets.rowlist import RowList
from sandbox.target import ModuleClass, find_modules

BATCH_SECONDS = 0.15
LARGEST_PREVIEW = 200_000


class PickerScreen(Screen[None]):
    """Lists every class with a forward below a folder, with its source; Enter goes on to its arguments."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-medium")]  # noqa: RUF012 - declared so by the base class
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", id="picker.filter"),
        Binding("escape", "list", "List", show=False, id="picker.list"),
        Binding("f5", "search", "Search again", key_display="F5", id="picker.search"),
    ]

    def __init__(self, root: Path, settings: Settings) -> None:
        super().__init__()
        self._root = root.resolve()
        self._settings = settings
        self._found: list[ModuleClass] = []
        self._shown: list[ModuleClass] = []
        self._searching = True

    def compose(self) -> ComposeResult:
        """Make the layout."""
        yield Static(f"◆ Pick a module below {shown_path(self._root)}", id="picker-title", markup=False)
        with Horizontal(id="picker-filter-line"):
            yield Static("/", id="prompt")
            yield Input(placeholder="Type to filter by path, class or words of its docstring", id="picker-filter")
        with Horizontal(id="picker-body"):
            with Vertical(id="picker-list", classes="pane"):
                yield RowList(id="modules")
            with Vertical(id="picker-preview", classes="pane"):
                yield CodeView(id="preview")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to search once the frame is on the screen."""
        self.query_one("#picker-filter", Input).focus()
        self.call_after_refresh(self.action_search)

    def action_search(self) -> None:
        """Search the folder, again if it was searched before."""
        self._found, self._searching = [], True
        self._show()
        self.run_worker(self._search, thread=True, exclusive=True, group="search")

    def _search(self) -> None:
        """Hand over what is found a few times a second; runs in a thread."""
        worker, batch, handed = get_current_worker(), [], time.monotonic()
        for found in find_modules(self._root):
            if worker.is_cancelled:
                return
            batch.append(found)
            if time.monotonic() - handed > BATCH_SECONDS:
                self.app.call_from_thread(self._add, batch, True)
                batch, handed = [], time.monotonic()
        self.app.call_from_thread(self._add, batch, False)

    def _add(self, batch: list[ModuleClass], searching: bool) -> None:
        self._found += batch
        self._searching = searching
        self._show()

    def _show(self) -> None:
        words = self.query_one("#picker-filter", Input).value.lower().split()
        self._shown = [found for found in self._found if all(word in self._text(found) for word in words)]
        rows = self.query_one("#modules", RowList)
        rows.show_items([self._row(found, rows.columns) for found in self._shown])
        if not self._shown:
            rows.show_rows(self._nothing())
        state = "searching…" if self._searching else f"{len(self._shown)} of {len(self._found)}"
        self.query_one("#picker-list").border_title = f"Modules  {state}"
        self._preview()

    def _text(self, found: ModuleClass) -> str:
        return f"{self._path(found)}:{found.name} {found.docstring}".lower()

    def _path(self, found: ModuleClass) -> Path:
        return found.path.relative_to(self._root) if found.path.is_relative_to(self._root) else found.path

    def _row(self, found: ModuleClass, width: int) -> Row:
        place = f"{self._path(found)}:{found.line}"
        name = clipped(found.name, 30)
        room = width - max(24, len(name)) - 4
        return row("  ", (f"{name:<24}", "bold"), " ", (clipped(place, max(10, room)), "$muted"))

    def _nothing(self) -> list[Row]:
        if self._searching:
            text = "Searching…"
        elif self._found:
            text = "Nothing fits the filter."
        else:
            text = "No class with a forward method was found here. Try: warpsmith open PATH"
        return [row(""), row("  ", (text, "$muted"))]

    def _preview(self) -> None:
        found = self._pointed
        view, pane = self.query_one("#preview", CodeView), self.query_one("#picker-preview")
        if found is None:
            view.show(CodeRows([]))
            pane.border_title = None
            return
        pane.border_title = Content(f"{found.name}({', '.join(found.init_parameters)})")
        try:
            text = clean(found.path.read_bytes()[:LARGEST_PREVIEW].decode("utf-8", "replace"))
        except OSError as error:
            view.show(CodeRows([row(f"  {error.strerror}")]))
            return
        marked = class_lines(text, found.name)
        rows = list(code_rows(text, found.path.name, marked=marked or range(found.line, found.line + 1)))
        view.show(CodeRows(rows, look_at=max(0, found.line - 1)))

    @property
    def _pointed(self) -> ModuleClass | None:
        rows = self.query_one("#modules", RowList)
        return self._shown[rows.at] if rows.at < len(self._shown) else None

    def on_input_changed(self) -> None:
        """Filter as the developer types."""
        self.query_one("#modules", RowList).point(0)
        self._show()

    def on_key(self, event: Key) -> None:
        """Let the arrow keys move in the list while the filter has the focus."""
        if event.key in ("up", "down") and self.query_one("#picker-filter", Input).has_focus:
            self.query_one("#modules", RowList).action_point(1 if event.key == "down" else -1)

    def on_row_list_pointed(self, event: RowList.Pointed) -> None:
        """Show the source of what is pointed at."""
        event.stop()
        self._preview()

    def on_row_list_taken(self, event: RowList.Taken) -> None:
        """Go on to the arguments."""
        event.stop()
        self._take()

    def on_input_submitted(self) -> None:
        """Go on to the arguments of what is pointed at."""
        self._take()

    def _take(self) -> None:
        if self._pointed is not None:
            self.app.push_screen(TaskFormScreen(self._pointed, self._settings), self._begin)

    def _begin(self, folder: Path | None) -> None:
        if folder is not None:
            from app.controller import SessionController
            from app.ide import WarpsmithApp
            from app.screens.session import SessionScreen

            assert isinstance(self.app, WarpsmithApp)
            self.app.open_screen(SessionScreen(SessionController(folder)))

    def action_filter(self) -> None:
        """Go to the filter."""
        self.query_one("#picker-filter", Input).focus()

    def action_list(self) -> None:
        """Go to the list."""
        self.query_one("#modules", RowList).focus()

    def on_resize(self) -> None:
        """Draw again at the new width."""
        self.call_after_refresh(self._show)
