"""When the engine is killed: a moment of a named kind, and the hand that strikes at it."""

from __future__ import annotations

import random
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from agent import events as ev
from tests.servers.engine_process import EngineProcess

WORKING = ("event", "stream", "tool", "check", "ahead", "torn", "start")
LANDING = ("landing", "landing write")
KINDS = (*WORKING, *LANDING)
_AT = {"tool": "Bash", "check": "Check"}


@dataclass(frozen=True)
class Moment:
    """A moment to kill at.

    Attributes:
        kind: ``event``: after the ``count``-th event stored from here on. ``torn``: likewise, and the next line is begun.
            ``stream``: at the ``count``-th piece of an answer. ``tool``, ``check``: ``delay`` after a Bash, a Check began.
            ``ahead``: ``delay`` after the judge began to work unasked, while the model writes its next answer.
            ``start``: ``delay`` after the engine was started. ``landing``: ``delay`` after it was asked to land.
            ``landing write``: ``delay`` after it began to write into the project.
        delay: Seconds.
    """

    kind: str
    count: int = 1
    delay: float = 0.0


def draw(kind: str, chance: random.Random) -> Moment:
    """Return a random moment of a kind."""
    longest = {"tool": 0.6, "check": 2.5, "ahead": 0.2, "start": 2.5, "landing": 3.0, "landing write": 0.012}
    most = {"event": 25, "torn": 25, "stream": 40}
    return Moment(kind, chance.randint(1, most.get(kind, 1)), chance.uniform(0, longest.get(kind, 0)))


class Blade:
    """Watches one engine and kills it at the moment.

    Attributes:
        struck: Whether it did.
        family: Who the engine had started by then.
    """

    def __init__(self, engine: EngineProcess, folder: Path, moment: Moment) -> None:
        self._engine = engine
        self._folder = folder
        self._moment = moment
        self._left = moment.count
        self._began = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.struck = False
        self.family: list[psutil.Process] = []
        if moment.kind == "start":
            self._later(moment.delay)

    def saw(self, event: ev.Event) -> None:
        """Look at an event that the engine told."""
        kind = self._moment.kind
        if (kind in ("event", "torn") and not isinstance(event, ev.Live)) or (
            kind == "stream" and isinstance(event, ev.Delta)
        ):
            self._count()
        elif (kind == "ahead" and isinstance(event, ev.StageAhead)) or (
            isinstance(event, ev.ToolStarted) and _AT.get(kind) == event.name
        ):
            self._later(self._moment.delay)

    def landing(self) -> None:
        """Take note that the engine was asked to land."""
        if self._moment.kind == "landing":
            self._later(self._moment.delay)
        elif self._moment.kind == "landing write":
            threading.Thread(target=self._at_the_write, daemon=True).start()

    def put_away(self) -> None:
        """Strike no more."""
        self._over.set()
        with self._lock:
            pass

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._strike()

    def _later(self, delay: float) -> None:
        if not self._began:
            self._began = True
            threading.Thread(target=lambda: self._over.wait(delay) or self._strike(), daemon=True).start()

    def _at_the_write(self) -> None:
        journal = self._folder / "landing.json"
        while not self._over.is_set():
            if journal.exists():
                time.sleep(self._moment.delay)
                self._strike()
                return
            time.sleep(0.0005)

    def _strike(self) -> None:
        with self._lock:
            if self.struck or self._over.is_set() or self._engine.process.poll() is not None:
                return
            self.struck = True
            self._engine.process.send_signal(signal.SIGSTOP)  # so that nothing happens while its family is listed
            self.family = psutil.Process(self._engine.process.pid).children(recursive=True)
            self._engine.process.kill()
