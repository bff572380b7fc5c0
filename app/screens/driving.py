"""The part of a session's screen in which the developer lets the agent work, stops it, tells it something, or begins a search."""

from __future__ import annotations

from abc import abstractmethod

from agent import commands
from app.screens.asked import AskedScreen
from app.screens.lasting import LastingScreen
from app.widgets.code_pane import CodePane
from app.widgets.steer import WATCHED, SteerInput


class DrivingScreen(AskedScreen):
    """A screen whose session has an engine that runs the agent, or that a search's coordinator runs."""

    @abstractmethod
    def refresh_state(self) -> None:
        """Redraw what has changed of the session's state."""

    async def action_run(self) -> None:
        """Let the agent begin or go on; start the engine again if it is gone."""
        self.controller.state.dismiss()
        if not self.controller.engine_alive:
            await self.controller.start_engine()
        self.controller.send(commands.Run())
        self.refresh_state()

    def action_stop(self) -> None:
        """Stop what runs."""
        self.controller.send(commands.Interrupt())
        self.notify("Stopping. What was done so far is kept.", timeout=3)

    def action_back(self) -> None:
        """Go back to the code."""
        self.query_one(CodePane).view.focus()

    @property
    def _busy(self) -> bool:
        state = self.controller.state
        return state.running or (state.step is not None and state.ready)

    @property
    def _over_search(self) -> bool:
        return any(isinstance(screen, LastingScreen) for screen in self.app.screen_stack)

    def action_search(self) -> None:
        """Open the search that the session is of, or begin one on its module."""
        from app.screens.searching import search_on

        search_on(self.app, self.controller.session)

    def action_to_search(self) -> None:
        """Go back to the search that lies below."""
        self.app.pop_screen()

    def on_steer_input_said(self, event: SteerInput.Said) -> None:
        """Tell the agent; the loop starts if it rests."""
        if self.controller.watching:
            self.notify(WATCHED, severity="warning")
        else:
            self.controller.send(commands.Steer(event.text))

    def action_dismiss_problem(self) -> None:
        """Take the problem off the screen."""
        self.controller.state.dismiss()
        self.refresh_state()

    def action_steer(self) -> None:
        """Go to the line in which the agent is told something."""
        self.query_one(SteerInput).focus()
