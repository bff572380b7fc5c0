"""The screen's end of the engine: starts the process, sends commands, and hands its events over in small batches.

Deltas that arrive between two batches are merged, so that an answer of any speed costs the screen at most 15 updates a
second. The engine gets a session of its own in the system's sense, so that a Ctrl-C meant for an editor never reaches it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent import commands, events
from agent.commands import Close, Command
from app.clock import now

BATCHES_PER_SECOND = 15
STDERR_LINES = 12
CLOSE_SECONDS = 1.5
TERMINATE_SECONDS = 1.0
DRAIN_SECONDS = 0.05
STDOUT, STDERR = 1, 2


@dataclass(frozen=True)
class Arrival:
    """An event as it came from the engine; live ones have no number.

    ``session`` is the folder of the session that it is of, where a search's coordinator passed it on.
    """

    event: events.Event
    n: int | None = None
    time: float = 0.0
    session: str = ""


@dataclass(frozen=True)
class EngineExit:
    """The engine ended without being asked to: its exit status, negative for a signal, and its last words."""

    status: int
    last_words: str

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.status >= 0:
            return f"exit code {self.status}"
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"


class EngineClient:
    """One engine process and the pipes to it.

    Args:
        argv: The command that starts the engine.
        on_arrivals: Called in the event loop with each batch of events, in order.
        on_exit: Called once if the engine ends by itself, after its last events.
    """

    def __init__(
        self,
        argv: Sequence[str],
        on_arrivals: Callable[[list[Arrival]], None],
        on_exit: Callable[[EngineExit], None],
    ) -> None:
        self._argv = list(argv)
        self._on_arrivals = on_arrivals
        self._on_exit = on_exit
        self._process: asyncio.SubprocessTransport | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._rest = {STDOUT: bytearray(), STDERR: bytearray()}
        self._waiting: list[Arrival] = []
        self._unsent: list[Command] = []
        self._last_words: deque[str] = deque(maxlen=STDERR_LINES)
        self._closing = False

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.get_returncode() is None

    async def start(self) -> None:
        """Start the process and begin to read it; commands sent before are delivered now.

        Raises:
            OSError: The process could not be started.
        """
        loop = asyncio.get_running_loop()
        self._process, _ = await loop.subprocess_exec(lambda: _Pipes(self._read), *self._argv, start_new_session=True)
        self._watcher = asyncio.create_task(self._watch(self._process))
        for command in self._unsent:
            self.send(command)
        self._unsent.clear()

    def send(self, command: Command) -> None:
        """Send a command; one sent before the start waits for it, one sent to a dead engine is dropped."""
        if self._process is None:
            self._unsent.append(command)
        elif self.alive:
            _stdin(self._process).write(json.dumps(commands.to_json(command)).encode() + b"\n")

    def interrupt(self) -> None:
        """Send the process what Ctrl-C sends; one that reads no commands stops its work for it."""
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGINT)

    async def close(self, patience: float | None = None) -> None:
        """Ask the engine to end, wait a moment or so many seconds, then make it end."""
        self._closing = True
        if self._process is None or self._watcher is None:
            return
        self.send(Close())
        _stdin(self._process).close()
        first = CLOSE_SECONDS if patience is None else patience
        for seconds, harder in ((first, self._process.terminate), (TERMINATE_SECONDS, self._process.kill)):
            if await _ended(self._process, seconds):
                break
            harder()
        await self._watcher

    async def _watch(self, process: asyncio.SubprocessTransport) -> None:
        """Deliver what arrives; when the process has ended, read what is left and report how it ended.

        A descendant that outlives the engine may hold its pipes open, so their end is not waited for.
        """
        while (status := process.get_returncode()) is None:
            await asyncio.sleep(1 / BATCHES_PER_SECOND)
            self.deliver()
        await asyncio.sleep(DRAIN_SECONDS)
        process.close()
        self._read_line(STDERR, bytes(self._rest[STDERR]))
        self.deliver()
        if not self._closing:
            self._on_exit(EngineExit(status, "\n".join(self._last_words)))

    def _read(self, fd: int, data: bytes) -> None:
        """Split what a pipe gave into lines of any length."""
        self._rest[fd] += data
        if b"\n" in data:
            *lines, self._rest[fd] = self._rest[fd].split(b"\n")
            for line in lines:
                self._read_line(fd, bytes(line))

    def _read_line(self, fd: int, line: bytes) -> None:
        if not line.strip():
            return
        if fd == STDOUT:
            self._receive(line)
        else:
            self._last_words.append(line.decode(errors="replace"))

    def _receive(self, line: bytes) -> None:
        """Put an event into the next batch; a line that is none is kept as last words."""
        try:
            data = json.loads(line)
            event = events.from_json(data)
        except (ValueError, KeyError, TypeError):
            self._last_words.append(line.decode(errors="replace"))
            return
        if event is not None:
            session = data["session"] if "agent" in data else ""
            self._enqueue(Arrival(event, data.get("n"), data.get("time") or now(), session))

    def _enqueue(self, arrival: Arrival) -> None:
        """Add an event to the next batch, merging a delta into one for the same place that waits already."""
        event = arrival.event
        if isinstance(event, events.Delta) and self._waiting:
            last = self._waiting[-1]
            if isinstance(last.event, events.Delta) and _place(last) == _place(arrival):
                self._waiting[-1] = replace(arrival, event=_merged(last.event, event))
                return
        self._waiting.append(arrival)

    def deliver(self) -> None:
        """Hand over what has arrived since the last batch."""
        if self._waiting:
            batch, self._waiting = self._waiting, []
            self._on_arrivals(batch)


class _Pipes(asyncio.SubprocessProtocol):
    """Passes on what the process writes."""

    def __init__(self, read: Callable[[int, bytes], None]) -> None:
        self._read = read

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what a pipe gave."""
        self._read(fd, data)


def _stdin(process: asyncio.SubprocessTransport) -> asyncio.WriteTransport:
    pipe = process.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    return pipe


def _place(arrival: Arrival) -> tuple[object, ...]:
    """Return where a delta belongs; nothing for other events."""
    delta = arrival.event
    return (arrival.session, delta.turn, delta.kind, delta.call) if isinstance(delta, events.Delta) else ()


def _merged(one: events.Delta, other: events.Delta) -> events.Delta:
    name = one.name or other.name
    return events.Delta(turn=one.turn, kind=one.kind, text=one.text + other.text, call=one.call, name=name)


async def _ended(process: asyncio.SubprocessTransport, seconds: float) -> bool:
    """Wait until the process has ended, at most this long, and tell whether it has."""
    for _ in range(int(seconds * 50)):
        if process.get_returncode() is not None:
            return True
        await asyncio.sleep(0.02)
    return process.get_returncode() is not None
