"""One session as the screen holds it: its stored events, its engine, and the developer's commands to it.

Stored events are read in a thread while the engine starts; what the engine says in the meantime waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent import commands
from agent.session import Session, engine_command, open_session
from agent.store import read_events
from app.engine_client import Arrival, EngineClient, EngineExit
from app.files import Files
from app.fold import fold
from app.state import Problem, SessionState
from sandbox.task import TaskSpec


class SessionController:
    """Keeps a session's state up to date and speaks to its engine.

    Args:
        folder: The session's folder.
        argv: Command that starts the engine; the real one unless another is given.
        watched: The state of a session whose engine is somebody else's, kept up to date by whoever gives it: it is only looked
            at until ``take_over``.

    Raises:
        UsageError: The folder holds no session.
    """

    def __init__(self, folder: Path, argv: list[str] | None = None, *, watched: SessionState | None = None) -> None:
        self.session: Session = open_session(folder)
        self.files = Files(folder)
        self.watching = watched is not None
        self.state = self.blank() if watched is None else watched
        self.loaded = self.watching
        self.on_change: Callable[[], None] = lambda: None
        self._argv = argv or engine_command(folder)
        self._client: EngineClient | None = None
        self._early: list[Arrival] = []

    @property
    def folder(self) -> Path:
        """The session's folder."""
        return self.session.folder

    @property
    def task(self) -> TaskSpec:
        """The task, as the engine resolved it where it has."""
        return self.state.task or self.session.task

    async def open(self, *, run: bool) -> None:
        """Start the engine and read the stored events at the same time; then let the agent begin, if asked to."""
        if self.watching:
            self.state.all_moved()
            return
        starting = asyncio.create_task(self.start_engine())
        await self.load()
        await starting
        if run and not self.state.running and not self.state.attempts:
            self.send(commands.Run())

    async def take_over(self) -> None:
        """Start an engine of its own on a session that was only looked at."""
        self.watching = False
        await self.start_engine()

    async def load(self) -> None:
        """Fold the stored events in, and then those that came from the engine in the meantime."""
        before = self.state
        self.state = await asyncio.to_thread(self._read)
        if before.lost:
            self.state.engine_lost()
        if before.problem is not None:
            self.state.report(before.problem)
        self.loaded = True
        early, self._early = self._early, []
        self._arrived(early)

    async def start_engine(self) -> None:
        """Start the engine, once more if the last one is gone."""
        self.state.lost = False
        self._client = EngineClient(self._argv, self._arrived, self._engine_ended)
        try:
            await self._client.start()
        except OSError as error:
            self.state.report(
                Problem(f"The engine does not start: {error.strerror}.", self._argv[0], "F5 tries again.")
            )
            self.on_change()

    @property
    def engine_alive(self) -> bool:
        """Whether an engine runs."""
        return self._client is not None and self._client.alive

    def send(self, command: commands.Command) -> None:
        """Send a command to the engine."""
        if self._client is not None:
            self._client.send(command)

    async def close(self) -> None:
        """End the engine."""
        self.watching = False
        if self._client is not None:
            await self._client.close()

    def blank(self) -> SessionState:
        """Return the session's state before any event."""
        settings = self.session.settings
        return SessionState(model=settings.model, device=self.session.task.device, mode=settings.permission_mode)

    def _read(self) -> SessionState:
        state = self.blank()
        for stored in read_events(self.folder):
            fold(state, stored.event, n=stored.n, time=stored.time)
        if state.running:
            state.settle()
        return state

    def _arrived(self, arrivals: list[Arrival]) -> None:
        if not self.loaded:
            self._early += arrivals
            return
        for arrival in arrivals:
            fold(self.state, arrival.event, n=arrival.n, time=arrival.time)
        self.on_change()

    def _engine_ended(self, ended: EngineExit) -> None:
        """Say that the engine is gone; an engine that already said why keeps the word."""
        self.state.engine_lost()
        if self.state.problem is None:
            what = f"The engine ended unexpectedly ({ended.how}). Nothing is lost: everything was on disk already."
            self.state.report(Problem(what, ended.last_words, "F5 starts it again and goes on."))
        self.on_change()
