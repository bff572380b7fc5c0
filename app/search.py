"""A search as the screen holds it: the sessions of its agents, and the coordinator that drives them.

The coordinator is the process that ``warpsmith run --resume-search`` is: it begins a search that has no agents yet, and goes on
with any other. The events that it passes on keep the sessions' states up to date, so that a session can be looked at while
the coordinator has its engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent.ranking import best_owned
from agent.search.record import Member, Record, read_record
from agent.store import StoredEvent, read_events
from app.clock import now
from app.controller import SessionController
from app.engine_client import Arrival, EngineClient, EngineExit
from app.fold import fold
from app.itself import own_command
from app.state import Judged, Problem, SessionState
from sandbox.errors import ExitCode

CLOSE_SECONDS = 8.0
"""How long the agents get to stop when the IDE is left: their judges end, and all is on disk already."""


class SearchController:
    """Keeps the states of a search's sessions up to date, and starts and stops its coordinator.

    Attributes:
        record: What the search is, and its sessions.
        running: Whether the coordinator runs; ``started`` is when it began to (Unix time).
        ended: Whether one ran here and is over.
        problem: What the developer has to know, or None.
        on_change: Called when something has changed.

    Args:
        folder: The search's folder.
        argv: Command that starts the coordinator; the real one unless another is given.

    Raises:
        UsageError: The folder holds no search.
    """

    def __init__(self, folder: Path, argv: list[str] | None = None) -> None:
        self.record: Record = read_record(folder)
        self.running = False
        self.ended = False
        self.started = 0.0
        self.problem: Problem | None = None
        self.on_change: Callable[[], None] = lambda: None
        self._argv = argv or own_command("run", "--resume-search", self.record.id, "--json", home=folder.parent.parent)
        self._client: EngineClient | None = None
        self._states: dict[Path, SessionState] = {}
        self._watched: SessionController | None = None
        self._settling: asyncio.Task[None] | None = None

    def state(self, session: Path) -> SessionState:
        """Return the state of a session of the search."""
        if session not in self._states:
            self._states[session] = SessionController(session).blank()
        return self._states[session]

    def best(self) -> tuple[Member, Judged] | None:
        """Return the best attempt of all sessions, with the agent that it is of."""
        members = self.record.members
        return best_owned((member, judged) for member in members for judged in self.state(member.session).attempts)

    def look_into(self, member: Member) -> SessionController:
        """Return a controller of an agent's session: with an engine of its own once the coordinator does not run."""
        if not self.running:
            return SessionController(member.session)
        self._watched = SessionController(member.session, watched=self.state(member.session))
        return self._watched

    async def load(self) -> None:
        """Fold in what is stored of the sessions and not known yet."""
        self.record, stored = await asyncio.to_thread(_read, self.record.folder)
        for session, events in stored.items():
            state = self.state(session)
            for each in events:
                fold(state, each.event, n=each.n, time=each.time)
            state.rest()
        self.on_change()

    async def start(self) -> None:
        """Start the coordinator."""
        self.running, self.problem, self.started = True, None, now()
        self._client = EngineClient(self._argv, self._arrived, self._coordinator_ended)
        try:
            await self._client.start()
        except OSError as error:
            self.running = False
            self.problem = Problem(f"The search does not start: {error.strerror}.", self._argv[0], "F5 tries again.")
        self.on_change()

    def stop(self) -> None:
        """Stop all agents, as Ctrl-C does without a screen."""
        if self._client is not None:
            self._client.interrupt()

    async def close(self) -> None:
        """Stop all agents, and wait until they have stopped."""
        if self._client is not None:
            self.stop()
            await self._client.close(patience=CLOSE_SECONDS)
        if self._settling is not None:
            await self._settling

    def _arrived(self, arrivals: list[Arrival]) -> None:
        for arrival in arrivals:
            session = Path(arrival.session)
            if session not in self._states:
                self.record = read_record(self.record.folder)
            fold(self.state(session), arrival.event, n=arrival.n, time=arrival.time)
        if self._watched is not None:
            self._watched.on_change()
        self.on_change()

    def _coordinator_ended(self, ended: EngineExit) -> None:
        self._settling = asyncio.create_task(self._settle(ended))

    async def _settle(self, ended: EngineExit) -> None:
        """Take what the sessions came to, and give the one that is looked at an engine of its own."""
        self.running, self.ended = False, True
        await self.load()
        self.problem = self._problem(ended)
        if self._watched is not None and self._watched.watching:
            await self._watched.take_over()
            self._watched.on_change()
        self._watched = None
        self.on_change()

    def _problem(self, ended: EngineExit) -> Problem | None:
        if ended.status in (ExitCode.OK, ExitCode.FAILED, ExitCode.INTERRUPTED):
            return None
        ends = [self.state(member.session).end for member in self.record.members]
        detail = next((end.detail for end in ends if end is not None and end.detail), "")
        if ended.status in (ExitCode.USAGE, ExitCode.ENVIRONMENT) and detail:
            return Problem("No agent could work.", detail, "Once that is mended, F5 tries again.")
        what = f"The search ended unexpectedly ({ended.how}). Nothing is lost: everything was on disk already."
        return Problem(what, ended.last_words, "F5 goes on with it.")


def _read(folder: Path) -> tuple[Record, dict[Path, list[StoredEvent]]]:
    record = read_record(folder)
    return record, {member.session: list(read_events(member.session)) for member in record.members}
