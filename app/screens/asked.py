"""The part of a session's screen in which the developer says what the agent may do: questions, mode, skills that are trusted."""

from __future__ import annotations

from functools import partial

from textual.widgets import Input

from agent import commands
from agent.permissions.modes import next_mode
from agent.skill_places import left_out, project_of
from app.screens.choice import ChoiceScreen
from app.screens.deciding import DecidingScreen
from app.screens.permission import Answer, PermissionScreen
from app.text.skills import skill_rows


class AskedScreen(DecidingScreen):
    """A screen that shows the question that is open, in a window over everything.

    The window waits while something else is in front or the developer is typing, and one that was put off does not come
    back by itself.
    """

    _put_off = ""

    def show_question(self) -> None:
        """Show the question that is open, and close the window of one that is not any more."""
        asked, front = self.controller.state.asked, self.app.screen
        if isinstance(front, PermissionScreen) and (asked is None or front.call_id != asked.call_id):
            front.dismiss(None)
        elif asked is not None and front is self and asked.call_id != self._put_off and not self._typing:
            self.action_answer()
            self.app.bell()

    @property
    def _typing(self) -> bool:
        return isinstance(self.focused, Input) and bool(self.focused.value)

    def action_answer(self) -> None:
        """Open the window with what the agent asks."""
        asked = self.controller.state.asked
        if asked is not None:
            self._put_off = ""
            self.app.push_screen(PermissionScreen(asked), partial(self._answered, asked.call_id))

    def _answered(self, call_id: str, answer: Answer | None) -> None:
        if answer is None:
            self._put_off = call_id
        else:
            self.controller.send(commands.AnswerPermission(call_id, answer.scope, answer.reason))
            self._put_off = call_id  # the engine's word that it is answered is still on its way

    def action_cycle_mode(self) -> None:
        """Choose the next permission mode."""
        self.controller.send(commands.SetMode(next_mode(self.controller.state.mode)))

    def action_skills(self) -> None:
        """Show the project's skills that are left out, and ask whether they are trusted."""
        found = left_out(self.controller.session.settings.home, project_of(self.controller.task))
        if not found:
            self.app.notify("This project has no skill that is left out.")
            return

        def decided(choice: int | None) -> None:
            if choice == 1:
                trusted = {str(folder): files for folder, files in found.items()}
                self.controller.send(commands.TrustSkills(trusted))

        choices = ["Leave them out", "I have read them: trust them as they are now"]
        self.app.push_screen(ChoiceScreen("Skills of this project", partial(skill_rows, list(found)), choices), decided)
