"""A search: its agents side by side with their best verdicts as they come, and the way into each one's session."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer

from agent.search.coordinator import unfinished
from agent.search.record import Member
from agent.session import open_session
from app.clock import now
from app.screens.lasting import LastingScreen
from app.screens.session import SessionScreen
from app.search import SearchController
from app.state import SessionState
from app.text.rows import row
from app.text.search import (
    agent_row,
    agent_rows,
    agent_title,
    agents_heading,
    found_rows,
    search_activity,
    search_place,
)
from app.text.titles import ORIGINAL, SOURCE
from app.widgets.banner import Banner
from app.widgets.lines import LinesView
from app.widgets.rowlist import RowList
from app.widgets.status import StatusLine, TopLine
from app.widgets.verdict import VerdictPanel


class SearchScreen(LastingScreen):
    """Shows one search and follows its coordinator.

    Sessions that are opened from it lie over it, and it goes on below them.

    Args:
        controller: The search.
        run: Let the agents begin, or go on, at once.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "run", "Go on", id="search.run", key_display="F5"),
        Binding("escape", "stop", "Stop", key_display="Esc", id="search.stop"),
        Binding("o", "open", "Open", id="search.open", tooltip="Open the session of the agent pointed at"),
    ]

    def __init__(self, controller: SearchController, *, run: bool = False) -> None:
        super().__init__()
        self.controller = controller
        self._run_at_once = run
        self._pointed = False
        self._gone = False

    def compose(self) -> ComposeResult:
        """Make the layout."""
        yield TopLine(self._doing, id="top")
        yield Banner(id="banner")
        yield LinesView(id="found")
        with Vertical(id="agents-pane", classes="pane"):
            yield RowList(id="agents")
        with Vertical(id="agent-pane", classes="pane"):
            yield VerdictPanel(id="agent")
        yield StatusLine(lambda: search_place(self.controller.record, self._states), id="status")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Read what there is of the search, and start it if it shall run."""
        record = self.controller.record
        self.query_one(TopLine).title = f"search {record.id} on {record.task.id}"
        self.query_one("#found").can_focus = False
        self.query_one("#agents").focus()
        self.controller.on_change = self.refresh_search
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(self.run_worker, self._open(), exit_on_error=True)

    async def _open(self) -> None:
        await self.controller.load()
        if self._run_at_once:
            await self.controller.start()

    async def on_unmount(self) -> None:
        """Stop the agents; the search goes on from there when it is opened again."""
        self._gone = True
        await self.controller.close()

    def on_screen_resume(self) -> None:
        """Take what was done in a session that was opened from here."""
        self.refresh_search()
        if not self.controller.running and self.controller.ended:
            self.run_worker(self.controller.load(), exclusive=True)

    def farewell(self, options: str) -> str:
        """Return how to go on with the search, or look at what it found."""
        record, best = self.controller.record, self.controller.best()
        if not unfinished(record) and best is not None:
            winner = open_session(best[0].session).id
            return f"The search is over. Look at its best attempt with: warpsmith sessions resume {winner}{options}"
        return f"The search is saved. Go on with: warpsmith run --resume-search {record.id}{options}"

    # --- showing the search ---------------------------------------------------------------------------------------

    def refresh_search(self) -> None:
        """Draw the search as it is now, where it is in sight."""
        if self._gone or not self.is_attached or self.app.screen is not self:
            return
        self._draw_agents()
        self._draw_agent()
        self.query_one(Banner).show(self.controller.problem)
        found = self.query_one("#found", LinesView)
        over = self._over and self.controller.problem is None
        found.show_rows(found_rows(self.controller.best(), max(20, self.size.width - 4)) if over else [])
        found.display = over
        self.query_one(TopLine).refresh()
        self.query_one(StatusLine).refresh()
        self.refresh_bindings()

    def _tick(self) -> None:
        if self.controller.running:
            self.refresh_search()

    def _draw_agents(self) -> None:
        rows, record = self.query_one("#agents", RowList), self.controller.record
        best = self.controller.best()
        width = rows.columns
        lines = [
            agent_row(record, member, self._state(member), width, now(), best=best is not None and member == best[0])
            for member in record.members
        ]
        self.query_one("#agents-pane").border_title = f"{record.agents} agents side by side"
        if not lines:
            rows.show_rows([row(""), row("  ", ("The agents begin…" if self.controller.running else "", "$muted"))])
            return
        if self._over and best is not None and not self._pointed:
            rows.point(record.members.index(best[0]))
        rows.show_items(lines, heading=agents_heading(record, width))

    def _draw_agent(self) -> None:
        member, pane, panel = self._at, self.query_one("#agent-pane"), self.query_one(VerdictPanel)
        if member is None:
            panel.show(None, lambda _: [])
            return
        state = self._state(member)
        pane.border_title = agent_title(self.controller.record, member, state)
        panel.show(member.session, lambda width: agent_rows(member, state, width))

    def _doing(self) -> list[tuple[str, str]]:
        controller = self.controller
        return search_activity(
            self._states, now(), running=controller.running, started=controller.started, over=self._over
        )

    @property
    def _over(self) -> bool:
        return not self.controller.running and not unfinished(self.controller.record)

    @property
    def _states(self) -> list[SessionState]:
        return [self._state(member) for member in self.controller.record.members]

    def _state(self, member: Member) -> SessionState:
        return self.controller.state(member.session)

    @property
    def _at(self) -> Member | None:
        members, at = self.controller.record.members, self.query_one("#agents", RowList).at
        return members[at] if at < len(members) else None

    def on_row_list_pointed(self, event: RowList.Pointed) -> None:
        """Show the agent that is pointed at."""
        event.stop()
        self._pointed = True
        self._draw_agent()

    def on_resize(self) -> None:
        """Draw again at the new size."""
        self.call_after_refresh(self.refresh_search)

    # --- what can be done -----------------------------------------------------------------------------------------

    def on_row_list_taken(self, event: RowList.Taken) -> None:
        """Open the session that was taken."""
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        """Open the session of the agent pointed at: to look on while the search runs, after that as any other."""
        if (member := self._at) is not None:
            view = ORIGINAL if self._state(member).attempts and not self.controller.running else SOURCE
            self.app.push_screen(SessionScreen(self.controller.look_into(member), view=view))

    async def action_run(self) -> None:
        """Let the search go on."""
        self._pointed = False
        await self.controller.start()

    def action_stop(self) -> None:
        """Stop all agents."""
        self.controller.stop()
        self.notify("Stopping all agents. What was done so far is kept.", timeout=3)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done now."""
        possible = {
            "run": not self.controller.running and not self._over,
            "stop": self.controller.running,
            "open": bool(self.controller.record.members),
        }
        return possible.get(action, super().check_action(action, parameters))
