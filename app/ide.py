"""The IDE: the application that holds the screens, and its two entry points."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.actions import parse
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.screen import Screen

from agent.settings import Settings
from app.controller import SessionController
from app.driver import TerminalDriver
from app.screens.lasting import LastingScreen
from app.screens.session import SessionScreen
from app.terminal import require_terminal
from app.text.plain import clean
from app.theme import THEMES, VARIABLE_DEFAULTS, choose_theme
from sandbox.errors import ExitCode, ToldToEnd, UsageError

if TYPE_CHECKING:
    from sandbox.hotspots.ranking import Ranking

__all__ = ["WarpsmithApp", "require_terminal", "run_hotspots", "run_ide", "run_picker"]


def run_ide(folder: Path, *, autostart: bool = False, keymap: Mapping[str, str] | None = None) -> int:
    """Open a session and follow it until the developer quits; return the exit code.

    Args:
        folder: The session's folder, with its ``session.json``; its engine need not have run yet.
        autostart: Let the agent begin at once.
        keymap: Keys by binding id, instead of the built-in ones.

    Raises:
        UsageError: There is no terminal, or no session in the folder.
    """
    require_terminal()
    controller = SessionController(folder)
    home = controller.session.settings.home
    return _run(WarpsmithApp(SessionScreen(controller, run=autostart), home, keymap or {}))


def run_picker(root: Path, settings: Settings, *, keymap: Mapping[str, str] | None = None) -> int:
    """Let the developer pick a module below a folder, then go on as :func:`run_ide`; return the exit code.

    Raises:
        UsageError: There is no terminal.
    """
    require_terminal()
    from app.screens.picker import PickerScreen

    return _run(WarpsmithApp(PickerScreen(root, settings), settings.home, keymap or {}))


def run_hotspots(ranking: Ranking, settings: Settings, *, keymap: Mapping[str, str] | None = None) -> int:
    """Let the developer pick a module from a ranking, then go on as :func:`run_ide`; return the exit code.

    Raises:
        UsageError: There is no terminal.
    """
    require_terminal()
    from app.screens.hotspots import HotspotsScreen

    return _run(WarpsmithApp(HotspotsScreen(ranking, settings), settings.home, keymap or {}))


def _run(app: WarpsmithApp) -> int:
    app.run()
    home = "" if app.home == Settings().home else f" --home {shlex.quote(str(app.home))}"
    if app.last_search is not None:
        sys.stderr.write(f"{app.last_search.farewell(home)}\n")
    elif app.last_session is not None:
        sys.stderr.write(f"The session is saved. Go on with: warpsmith sessions resume {app.last_session}{home}\n")
    if app.told_to_end:
        raise ToldToEnd
    return ExitCode.INTERNAL if app.return_code else ExitCode.OK


class WarpsmithApp(App[None]):
    """Holds the screens, the theme and the keys that work everywhere."""

    TITLE = "Warpsmith"
    CSS_PATH = Path(__file__).with_name("ide.tcss")
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark", "help", "Help", key_display="F1", id="app.help"),
        Binding("f2", "sessions", "Sessions", key_display="F2", id="app.sessions"),
        Binding("ctrl+q", "quit", "Quit", id="app.quit", priority=True),
        Binding("ctrl+c", "help_quit", show=False, system=True, id="app.copy"),
    ]

    def __init__(self, first: Screen[None], home: Path, keymap: Mapping[str, str]) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.home = home
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = choose_theme(os.environ)
        # Text that glides is harder to read and slower over a network.
        self.animation_level = "none"
        self._first = first
        self._keys = dict(keymap)
        self.last_session: str | None = None
        self.last_search: LastingScreen | None = None
        self.told_to_end = False

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give themes that are not ours the colours that only we name."""
        return VARIABLE_DEFAULTS

    def on_mount(self) -> None:
        """Show the first screen."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        self.set_keymap(self._keys)
        self.open_screen(self._first)

    def _end(self) -> None:
        """Leave in order when told to end: an exception amid the loop would leave tasks that complain on the terminal."""
        self.told_to_end = True
        self.exit()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Offer in the palette what can be done now, then what Textual offers."""
        for node in (screen, self):
            for binding in node.BINDINGS:
                if isinstance(binding, Binding) and binding.description and self._is_possible(node, binding.action):
                    text = binding.tooltip or f"{binding.description} ({binding.key_display or binding.key})"
                    yield SystemCommand(binding.description, text, partial(node.run_action, binding.action))
        yield from super().get_system_commands(screen)

    def _is_possible(self, node: DOMNode, action: str) -> bool:
        _, name, parameters = parse(action)
        return bool(node.check_action(name, parameters))

    def open_screen(self, screen: Screen[None]) -> None:
        """Show a screen in place of the one there is, or over one that lasts; a session is closed with its screen."""
        if isinstance(screen, SessionScreen):
            self.last_session = screen.controller.session.id
        elif isinstance(screen, LastingScreen):
            self.last_search = screen
        if len(self.screen_stack) > 1 and not isinstance(self.screen, LastingScreen):
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message for a while. It is drawn as it is, because it may hold text from anywhere."""
        super().notify(clean(message), title=title, severity=severity, timeout=timeout, markup=markup)

    def action_help_quit(self) -> None:
        """Answer Ctrl-C, which copies where text is selected, and never ends anything."""
        self.notify(
            "Ctrl-Q leaves; the session is saved at every step. Esc stops the agent.", title="Nothing is selected"
        )

    def action_help(self) -> None:
        """Show the keys of the screen in sight, and what the signs mean."""
        from app.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            bindings = [b for node in (self.screen, self) for b in node.BINDINGS if isinstance(b, Binding)]
            self.push_screen(HelpScreen(bindings, self._keys))

    def action_sessions(self) -> None:
        """Show the list of sessions, and open the one that is taken."""
        from app.screens.sessions import SessionsScreen

        if not isinstance(self.screen, SessionsScreen):
            screen = self.screen
            here = screen.controller.folder if isinstance(screen, SessionScreen) else None
            self.push_screen(SessionsScreen(self.home, here), self._open_session)

    def _open_session(self, folder: Path | None) -> None:
        if folder is None:
            return
        if isinstance(self.screen, SessionScreen) and self.screen.controller.folder.resolve() == folder.resolve():
            return
        try:
            self.open_screen(SessionScreen(SessionController(folder)))
        except UsageError as error:
            self.notify(str(error), severity="error")
