"""The session: code, the agent's stream, the attempts and the verdict, and what the developer can do with them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.widget import Widget
from textual.widgets import Footer, Static

from app.clock import now
from app.controller import SessionController
from app.screens.driving import DrivingScreen
from app.state import Part
from app.text.original import profile_rows
from app.text.status import activity, place
from app.text.titles import AGENT, ORIGINAL, SOURCE, VERDICT, VIEWS, attempts_title, plan_text, view_titles
from app.text.verdict import verdict_rows
from app.widgets.attempts import AttemptsTable
from app.widgets.banner import Banner
from app.widgets.code_pane import CodePane
from app.widgets.lines import LinesView
from app.widgets.status import StatusLine, TopLine
from app.widgets.steer import HINT, WATCHED, SteerInput
from app.widgets.stream import StreamView
from app.widgets.tabs import TabStrip
from app.widgets.verdict import VerdictPanel
from sandbox.hotspots.folder import recording_of

_DEEDS = frozenset(
    {
        *("run", "stop", "steer", "answer", "cycle_mode", "skills", "edit", "land", "undo", "redo", "compare"),
        *("accept", "reject", "accept_file", "reject_file"),
    }
)
"""What cannot be done in a session that is only looked at: its engine is a search's."""
_SHOWING = (TopLine, StatusLine, StreamView, AttemptsTable, VerdictPanel, CodePane, Banner)
"""Widgets that show the state."""


class SessionScreen(DrivingScreen):
    """Shows one session and follows its engine.

    Args:
        controller: The session.
        run: Let the agent begin at once.
        view: The view on code to begin with.
    """

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - declared so by the base class
        (0, "-narrow"),
        (100, "-medium"),
        (160, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (16, "-short"),
        (30, "-normal"),
        (50, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "run", "Run", id="session.run", key_display="F5"),
        Binding("escape", "stop", "Stop", key_display="Esc", id="session.stop"),
        Binding("escape", "back", "Back to the code", show=False, id="session.back"),
        Binding("i", "steer", "Tell", id="session.steer", tooltip="Tell the agent something"),
        Binding("p", "answer", "Answer", id="session.answer", tooltip="Answer what the agent asks"),
        Binding("shift+tab", "cycle_mode", "Mode", id="session.mode", show=False, tooltip="The next permission mode"),
        Binding(
            "f3", "next_view", "View", id="session.view", tooltip="Source, diff, previous, kernels", key_display="F3"
        ),
        Binding("right_square_bracket", "hunk(1)", "Next", key_display="]", id="hunk.next"),
        Binding("left_square_bracket", "hunk(-1)", "Previous", key_display="[", id="hunk.previous", show=False),
        Binding("a", "accept", "Accept", id="hunk.accept"),
        Binding("r", "reject", "Reject", id="hunk.reject"),
        Binding("A", "accept_file", "Accept file", id="hunk.accept_file", show=False),
        Binding("R", "reject_file", "Reject file", id="hunk.reject_file", show=False),
        Binding("l", "land", "Land", id="session.land"),
        Binding("u", "undo", "Undo", id="session.undo"),
        Binding("U", "redo", "Redo", id="session.redo", show=False, tooltip="Land again what was taken back last"),
        Binding("K", "skills", "Skills", id="session.skills", show=False, tooltip="Trust the project's skills"),
        Binding("E", "compare", "End to end", id="session.compare", show=False, tooltip="Your script again, compared"),
        Binding("S", "search", "Search", id="session.search", show=False, tooltip="Several agents on this module"),
        Binding("S", "to_search", "Search", id="session.to_search", tooltip="Back to the search"),
        Binding("f4", "see('agent')", "Agent", id="session.agent", show=False, key_display="F4"),
        Binding("f6", "see('attempts')", "Attempts", id="session.attempts", show=False, key_display="F6"),
        Binding("f7", "see('verdict')", "Verdict", id="session.verdict", show=False, key_display="F7"),
        Binding("e", "edit", "Edit", id="session.edit", show=False, tooltip="The workspace's file in your editor"),
        Binding(
            "o",
            "open",
            "Open",
            id="session.open",
            show=False,
            tooltip="Your own file, or a whole output, in your editor",
        ),
        Binding("y", "copy", "Copy", id="session.copy", show=False, tooltip="The hunk, or all of the pane"),
        Binding("x", "dismiss_problem", "Dismiss", id="session.dismiss", show=False),
    ]

    def __init__(self, controller: SessionController, *, run: bool = False, view: str = SOURCE) -> None:
        super().__init__(controller)
        self._run_at_once = run
        self._seen = view
        self._over = False
        self._was_running = False

    def compose(self) -> ComposeResult:
        """Make the layout; everything in it is filled once the session is read."""
        state = self.controller.state
        yield TopLine(lambda: activity(self.controller.state, now()), id="top")
        yield Banner(id="banner")
        with Horizontal(id="tabs-line"):
            yield TabStrip(view_titles(state, None, narrow=False), SOURCE, id="tabs")
            yield Static("", id="agent-title", markup=False)
        with Horizontal(id="upper"):
            yield CodePane(self.controller, id="code")
            yield StreamView(state, beginning=self._run_at_once, id="agent")
        with Horizontal(id="lower"):
            with Vertical(id="attempts-pane", classes="pane"):
                yield AttemptsTable(state, id="attempts")
            with Vertical(id="verdict-pane", classes="pane"):
                yield VerdictPanel(id="verdict")
        with Horizontal(id="steer-line"):
            yield Static("›", id="prompt")
            yield SteerInput(id="steer")
        yield StatusLine(lambda: place(self.controller.state), id="status")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Start the engine and read the session once the frame is on the screen."""
        self.query_one(TopLine).title = self.controller.task.id
        self.query_one("#verdict-pane").border_title = "Verdict"
        self.query_one("#attempts-pane").border_title = "Attempts"
        self.controller.on_change = self.refresh_state
        self.set_interval(1.0, self._tick)
        self.query_one(CodePane).view.focus()
        self.call_after_refresh(self.run_worker, self._open(), exit_on_error=True)

    async def on_unmount(self) -> None:
        """End the engine; what it says last finds no widget any more."""
        self._over = True
        await self.controller.close()

    async def _open(self) -> None:
        await self.controller.open(run=self._run_at_once)
        self.refresh_state()
        self.query_one(CodePane).look_at(self._code_view)

    # --- showing the state ----------------------------------------------------------------------------------------

    def refresh_state(self) -> None:
        """Redraw what has changed of the session's state."""
        if self._over or not self.controller.loaded or not self.is_attached or not self._complete:
            return
        state = self.controller.state
        if self._was_running and not state.running:
            self.app.bell()
        self._was_running = state.running
        changes = state.take_changes()
        if changes.parts & ~Part.LIVE:
            self._show_status()
        if changes.parts & (Part.STREAM | Part.LIVE):
            self.query_one(StreamView).show(state, changes.blocks)
        if changes.parts & (Part.ATTEMPTS | Part.STATUS):
            self._show_attempts()
        if changes.parts & Part.TASK:
            self.query_one(TopLine).title = self.controller.task.id
            self.query_one(CodePane).outdate(SOURCE)
        if changes.parts & Part.DECISIONS:
            self.query_one(CodePane).outdate(ORIGINAL)
        if changes.parts & Part.PROBLEM:
            self.query_one(Banner).show(state.problem)
        if changes.parts & Part.QUESTION:
            self.show_question()

    @property
    def _complete(self) -> bool:
        """Whether all is there that shows the state: as the IDE is left, widgets go before the screen that holds them."""
        try:
            for kind in _SHOWING:
                self.query_one(kind)
        except NoMatches:
            return False
        return True

    def _show_status(self) -> None:
        state = self.controller.state
        for line in (self.query_one(TopLine), self.query_one(StatusLine)):
            line.refresh()
        self.query_one("#agent-title", Static).update(plan_text(state), layout=False)
        self.query_one(SteerInput).placeholder = WATCHED if self.controller.watching else HINT
        self.refresh_bindings()

    def _show_attempts(self) -> None:
        state = self.controller.state
        self.query_one(AttemptsTable).show(state)
        self.query_one("#attempts-pane").border_title = attempts_title(state)
        if self._judged is None:
            self._show_verdict()

    def _show_verdict(self) -> None:
        judged, profile = self._judged, self.controller.state.profile
        pane, panel = self.query_one("#verdict-pane"), self.query_one(VerdictPanel)
        if judged is not None:
            pane.border_title = f"Verdict of #{judged.number}, {judged.verdict.tier}"
            panel.show(judged.number, lambda width: verdict_rows(judged, width))
        elif profile is not None:
            pane.border_title = "Original"
            panel.show(0, lambda width: profile_rows(profile, width))

    def on_attempts_table_selected(self, event: AttemptsTable.Selected) -> None:
        """Show the selected attempt's verdict and code."""
        self._selected = event.number
        self._show_verdict()
        self._show_tabs()
        self.query_one(CodePane).select(self._judged)

    def action_copy(self) -> None:
        """Copy the current hunk, or all that the pane with the focus shows."""
        view = self.focused if isinstance(self.focused, LinesView) else self.query_one(CodePane).view
        self.app.copy_to_clipboard(view.copied())
        self.notify("Copied.", timeout=2)

    def _tick(self) -> None:
        state = self.controller.state
        if state.running or state.step is not None:
            self.query_one(TopLine).refresh()
        self.show_question()

    # --- views and panes ------------------------------------------------------------------------------------------

    @property
    def _code_view(self) -> str:
        return self._seen if self._seen in VIEWS else self.query_one(CodePane).active

    @property
    def _narrow(self) -> bool:
        return self.has_class("-narrow")

    def on_resize(self) -> None:
        """Give the line of tabs what this width needs."""
        self.call_after_refresh(self._show_tabs)

    def _show_tabs(self) -> None:
        tabs = self.query_one(TabStrip)
        tabs.names = view_titles(self.controller.state, self._judged, narrow=self._narrow)
        tabs.active = self._seen if self._narrow or self._seen in VIEWS else self._code_view
        self.set_class(self._seen == AGENT, "-see-agent")
        self.set_class(self._seen == VERDICT, "-see-verdict")

    def on_tab_strip_picked(self, event: TabStrip.Picked) -> None:
        """See the picked view."""
        self.action_see(event.name)

    def action_see(self, name: str) -> None:
        """Bring a view or pane into sight and give it the keys."""
        if name == "attempts":
            self.query_one(AttemptsTable).focus()
            return
        self._seen = name
        self._show_tabs()
        pane = self.query_one(CodePane)
        if name in VIEWS:
            pane.look_at(name)
        target: Widget = pane.view if name in VIEWS else self.query_one(f"#{name}")
        target.focus()
        self.refresh_bindings()

    def action_next_view(self) -> None:
        """Go to the next view: from the code to the other code views, on a narrow screen through all."""
        order = list(self.query_one(TabStrip).names)
        at = order.index(self._seen) if self._seen in order else -1
        self.action_see(order[(at + 1) % len(order)])

    # --- hunks ----------------------------------------------------------------------------------------------------

    def action_hunk(self, direction: int) -> None:
        """Go to the next or previous hunk; from elsewhere, see the difference to the original first."""
        pane = self.query_one(CodePane)
        if pane.active == SOURCE or self._seen not in VIEWS:
            self.action_see(ORIGINAL)
        else:
            pane.view.step(direction)

    # --- the developer's editor -----------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Open the file in sight, as the workspace has it, in the developer's editor."""
        from app.screens.editing import edit_workspace_file

        spot = self.query_one(CodePane).view.place()
        if spot is not None and edit_workspace_file(self.app, self.controller, *spot):
            steer = self.query_one(SteerInput)
            steer.value = f"I edited {spot[0]}: "
            steer.focus()

    def action_open(self) -> None:
        """Open the whole output of the tool call under the cursor, else the developer's own file."""
        from app.screens.editing import open_output, open_own_file

        stream = self.query_one(StreamView)
        call = stream.opened() if stream.has_focus else None
        if call is not None and call.full is not None:
            open_output(self.app, self.controller, call)
            return
        spot = self.query_one(CodePane).view.place() if self._code_view == SOURCE else None
        open_own_file(self.app, self.controller, spot[1] if spot else 1)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done now."""
        state = self.controller.state
        if self.controller.watching and action in _DEEDS:
            return False
        if action in ("accept", "reject", "accept_file", "reject_file"):
            return bool(self.is_mounted and self._decidable(whole_file=False))
        possible = {
            "run": not state.running,
            "search": not state.running and not self._over_search,
            "to_search": self._over_search,
            "stop": self._busy,
            "answer": state.asked is not None,
            "hunk": bool(state.attempts),
            "land": bool(state.attempts),
            "undo": state.landing_to_undo() is not None,
            "redo": state.landing_to_redo() is not None,
            "compare": bool(state.landings) and recording_of(self.controller.task.capture) is not None,
        }
        return possible.get(action, super().check_action(action, parameters))
