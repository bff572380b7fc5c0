"""What takes the time in the developer's own run: the classes by their share; Enter opens a session on one."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from agent.session import create_session
from agent.settings import Settings
from app.hotspots_report import run_lines
from app.screens.task_form import TaskFormScreen
from app.text.code import CodeRows, code_rows
from app.text.hotspots import hotspot_facts, hotspot_heading, hotspot_row
from app.text.plain import clean
from app.text.rows import row
from app.views import class_lines
from app.widgets.code import CodeView
from app.widgets.lines import LinesView
from app.widgets.rowlist import RowList
from sandbox.capture import resolve_capture
from sandbox.errors import TaskError, WarpsmithError
from sandbox.hotspots.rank import Hotspot
from sandbox.hotspots.ranking import Ranking
from sandbox.machine.devices import resolve_device
from sandbox.target import find_classes

LARGEST_PREVIEW = 200_000


class HotspotsScreen(Screen[None]):
    """Lists the classes of a ranking, with what is known of one and its source."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-medium")]  # noqa: RUF012 - declared so by the base class
    DEFAULT_CSS = """
    HotspotsScreen { layout: vertical; }
    HotspotsScreen #hotspots-title { height: 1; background: $panel; padding: 0 1; color: $accent; text-style: bold; }
    HotspotsScreen #hotspots-run { height: auto; padding: 0 1; color: $muted; }
    HotspotsScreen .pane {
        border-top: solid $line; border-title-color: $muted; border-title-style: none; height: 1fr;
    }
    HotspotsScreen .pane:focus-within { border-top: solid $accent; border-title-color: $accent; border-title-style: bold; }
    HotspotsScreen #hotspots-list { width: 3fr; }
    HotspotsScreen #hotspots-about { width: 2fr; border-left: vkey $line; }
    HotspotsScreen #hotspots-facts { height: 12; }
    HotspotsScreen #hotspots-source { height: 1fr; border-top: solid $line; }
    HotspotsScreen.-narrow #hotspots-body { layout: vertical; }
    HotspotsScreen.-narrow #hotspots-list, HotspotsScreen.-narrow #hotspots-about { width: 1fr; border-left: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Open a session", id="hotspots.take"),
    ]

    def __init__(self, ranking: Ranking, settings: Settings) -> None:
        super().__init__()
        self._ranking = ranking
        self._settings = settings
        self._captures = ranking.captures
        self._root = Path(ranking.run.directory)
        self._shown = [each for each in ranking.hotspots if each.origin != "torch"] or list(ranking.hotspots)

    def compose(self) -> ComposeResult:
        """Make the layout."""
        yield Static(f"◆ What takes the time in: {clean(self._ranking.run.text)}", id="hotspots-title", markup=False)
        lines = run_lines(self._ranking.recording, self._ranking.pace, self._ranking.run.others)
        yield Static("\n".join(map(clean, lines)), id="hotspots-run", markup=False)
        with Horizontal(id="hotspots-body"):
            with Vertical(id="hotspots-list", classes="pane"):
                yield RowList(id="hotspots")
            with Vertical(id="hotspots-about", classes="pane"):
                yield LinesView(id="hotspots-facts")
                yield CodeView(id="hotspots-source")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show the list once its width is known."""
        self.query_one("#hotspots-list").border_title = "Classes by share of the device's time · Enter opens a session"
        self.query_one("#hotspots", RowList).focus()
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        rows = self.query_one("#hotspots", RowList)
        largest = max((each.share for each in self._shown), default=1.0)
        items = [hotspot_row(each, largest, rows.columns, self._root) for each in self._shown]
        rows.show_items(items, heading=hotspot_heading())
        self._tell()

    def _tell(self) -> None:
        """Show what is known of the class pointed at, and its source."""
        each = self._pointed
        if each is None:
            return
        self.query_one("#hotspots-about").border_title = Content(clean(each.name))
        view = self.query_one("#hotspots-facts", LinesView)
        gain, captured = self._ranking.gains.get(each.key), each.key in self._captures
        view.show_rows(hotspot_facts(each, gain, captured, view.columns))
        self.query_one("#hotspots-source", CodeView).show(_source(each))

    @property
    def _pointed(self) -> Hotspot | None:
        rows = self.query_one("#hotspots", RowList)
        return self._shown[rows.at] if rows.at < len(self._shown) else None

    def on_row_list_pointed(self, event: RowList.Pointed) -> None:
        """Show what is pointed at."""
        event.stop()
        self._tell()

    def on_row_list_taken(self, event: RowList.Taken) -> None:
        """Open what was taken."""
        event.stop()
        self.action_take()

    def action_take(self) -> None:
        """Open a session on the class pointed at: from its capture, or from arguments that are asked for."""
        each = self._pointed
        if each is None:
            return
        if each.unopened:
            self.notify(f"{each.name} cannot be opened: {each.unopened}.", severity="warning")
            return
        capture = self._captures.get(each.key)
        if capture is None:
            self._ask(each)
            return
        try:
            spec = resolve_capture(capture, device=resolve_device(self._settings.device if each.on_gpu else "cpu"))
            self._begin(create_session(spec, self._settings, self._settings.home))
        except TaskError as error:
            self.notify(str(error), severity="warning")
            self._ask(each)
        except WarpsmithError as error:
            self.notify(str(error), severity="error")

    def _ask(self, each: Hotspot) -> None:
        """Ask for arguments, where there is no capture that could be used."""
        try:
            found = next((found for found in find_classes(Path(each.file)) if found.name == each.name), None)
        except TaskError as error:
            self.notify(str(error), severity="error")
            return
        if found is None:
            self.notify(f"{each.name} was not found in {each.file}.", severity="warning")
            return
        self.app.push_screen(TaskFormScreen(found, self._settings), self._begin)

    def _begin(self, folder: Path | None) -> None:
        if folder is not None:
            from app.controller import SessionController
            from app.ide import WarpsmithApp
            from app.screens.session import SessionScreen

            assert isinstance(self.app, WarpsmithApp)
            self.app.open_screen(SessionScreen(SessionController(folder)))

    def on_resize(self) -> None:
        """Draw again at the new width."""
        self.call_after_refresh(self._show)


def _source(each: Hotspot) -> CodeRows:
    path = Path(each.file)
    if not each.file:
        return CodeRows([row("  no source file")])
    try:
        text = clean(path.read_bytes()[:LARGEST_PREVIEW].decode("utf-8", "replace"))
    except OSError as error:
        return CodeRows([row(f"  {error.strerror}")])
    marked = class_lines(text, each.name) or range(each.line, each.line + 1)
    return CodeRows(list(code_rows(text, path.name, marked=marked)), look_at=max(0, marked.start - 1))
