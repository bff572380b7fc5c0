"""The part of a session's screen in which the developer accepts or rejects changes, and lands them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.screen import Screen

from agent import commands
from app.controller import SessionController
from app.screens.reason import ReasonScreen
from app.state import Judged
from app.text.titles import ORIGINAL
from app.widgets.code_pane import CodePane
from app.widgets.diff import DiffView
from sandbox.hotspots.folder import recording_of

if TYPE_CHECKING:
    from agent.landing.hunks import Hunk


class DecidingScreen(Screen[None]):
    """A screen with a code pane, one of whose views shows an attempt's changes to the original.

    Args:
        controller: The session.
    """

    def __init__(self, controller: SessionController) -> None:
        super().__init__()
        self.controller = controller
        self._selected: int | None = None

    @property
    def _judged(self) -> Judged | None:
        return self.controller.state.attempt(self._selected)

    def _decidable(self, *, whole_file: bool) -> list[Hunk]:
        """The current hunk, or all of its file; none where there is nothing to decide."""
        view = self.query_one(CodePane).view
        if view.id != ORIGINAL or not isinstance(view, DiffView) or view.hunk is None:
            return []
        return [hunk for hunk in view.hunks if hunk.file == view.hunk.file] if whole_file else [view.hunk]

    def action_accept(self, whole_file: bool = False) -> None:
        """Accept the current hunk."""
        hunks, judged = self._decidable(whole_file=whole_file), self._judged
        if judged is not None:
            for hunk in hunks:
                self.controller.send(commands.AcceptHunk(judged.number, hunk.file, hunk.id))
            self._after_decision(hunks, "accepted")

    def action_accept_file(self) -> None:
        """Accept every hunk of the current file."""
        self.action_accept(whole_file=True)

    def action_reject(self, whole_file: bool = False) -> None:
        """Ask for a reason and reject the current hunk."""
        hunks, judged = self._decidable(whole_file=whole_file), self._judged
        if not hunks or judged is None:
            return
        whole = whole_file or hunks[0].id == "file"
        what = hunks[0].file if whole else f"{hunks[0].file} at line {hunks[0].new_start}"
        self.app.push_screen(ReasonScreen(what), partial(self._reject, judged.number, hunks))

    def action_reject_file(self) -> None:
        """Ask for a reason and reject every hunk of the current file."""
        self.action_reject(whole_file=True)

    def _reject(self, attempt: int, hunks: list[Hunk], reason: str | None) -> None:
        if reason is not None:
            for hunk in hunks:
                self.controller.send(commands.RejectHunk(attempt, hunk.file, hunk.id, reason))
            self._after_decision(hunks, "rejected")

    def on_diff_view_moved(self) -> None:
        """Offer what can be done with the hunk that is the current one now."""
        self.refresh_bindings()

    def _after_decision(self, hunks: list[Hunk], fate: str) -> None:
        """Say what was decided, as the next hunk is shown in its place."""
        if hunks:
            changes = "1 change" if len(hunks) == 1 else f"{len(hunks)} changes"
            self.notify(f"{changes} of {hunks[0].file} {fate}.", timeout=2)
        view = self.query_one(CodePane).view
        if len(hunks) == 1 and isinstance(view, DiffView):
            view.step(1)

    # --- landing --------------------------------------------------------------------------------------------------

    def action_land(self) -> None:
        """Say what landing the selected attempt will do, and land it if that is wanted."""
        from app.screens.landing import propose_landing

        propose_landing(self.app, self.controller, self._judged)

    def action_undo(self) -> None:
        """Say what undoing the last landing will do, and undo it if that is wanted."""
        from app.screens.landing import propose_undo

        propose_undo(self.app, self.controller)

    def action_redo(self) -> None:
        """Say what landing again does, and do it if that is wanted."""
        from app.screens.landing import propose_redo

        propose_redo(self.app, self.controller)

    def action_compare(self) -> None:
        """Run the script again that the module was captured from, and say what came of the landing."""
        from app.screens.comparing import ComparingScreen, compare_command

        recording = recording_of(self.controller.task.capture)
        if recording is not None:
            self.app.push_screen(ComparingScreen(compare_command(recording, self.controller.session.settings.home)))
