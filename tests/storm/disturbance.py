"""What a storm does to the judge from outside: signals to its processes, at moments that nobody chose."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tests.storm.leaks import MARK

TARGETS = ("worker", "zygote", "bench", "compiler")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)
_COMPILERS = frozenset(("g++", "cc1plus", "as", "collect2", "ld", "nvcc", "cicc", "ptxas", "cudafe++", "ninja"))
_LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Disturbance:
    """One signal: to whom, which, and how far into a usual verdict, as a share of its time."""

    target: str
    number: signal.Signals
    moment: float

    @property
    def name(self) -> str:
        """``SIGKILL worker``."""
        return f"{self.number.name} {self.target}"


def draw(chance: random.Random) -> Disturbance:
    """Draw one."""
    return Disturbance(chance.choice(TARGETS), chance.choice(SIGNALS), chance.random())


class Hand:
    """Sends a disturbance's signal once, while a verdict is made: at its moment, or when there is somebody to send it to.

    Args:
        disturbance: What to do.
        usual_seconds: How long a verdict takes.
        chance: Chooses among the processes there are.

    Attributes:
        sent: To whom it went; empty if the verdict was there before.
    """

    def __init__(self, disturbance: Disturbance, usual_seconds: float, chance: random.Random) -> None:
        self._disturbance = disturbance
        self._wait = disturbance.moment * usual_seconds
        self._chance = chance
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._strike, name="storm")
        self.sent = ""
        self._thread.start()

    def rest(self) -> None:
        """Stop looking for somebody."""
        self._ended.set()
        self._thread.join()

    def _strike(self) -> None:
        if self._ended.wait(self._wait):
            return
        while not self._ended.wait(_LOOK_SECONDS):
            there = _FINDERS[self._disturbance.target]()
            if not there:
                continue
            chosen = self._chance.choice(there)
            with contextlib.suppress(psutil.Error):
                told = f"{chosen.name()} {chosen.pid}"
                chosen.send_signal(self._disturbance.number)
                self.sent = told
                return


def _ours() -> list[psutil.Process]:
    """Return what this process has started, and what a container holds that works in this storm's folder."""
    found = psutil.Process().children(recursive=True)
    mark = os.environ.get(MARK, "")
    for process in psutil.process_iter() if mark else ():
        with contextlib.suppress(psutil.Error):
            found += [process] if mark in " ".join([*process.cmdline(), process.cwd()]) and process not in found else []
    return found


def _named(role: str) -> list[psutil.Process]:
    found = []
    for process in _ours():
        with contextlib.suppress(psutil.Error):
            found += [process] if role in process.cmdline()[2:3] else []
    return found


def _workers() -> list[psutil.Process]:
    """Return what zygotes started: the stand-in of a worker, its init, the worker itself, and what that started."""
    found = []
    for zygote in _named("zygote"):
        with contextlib.suppress(psutil.Error):
            found += zygote.children(recursive=True)
    return found


def _compilers() -> list[psutil.Process]:
    found = []
    for process in _ours():
        with contextlib.suppress(psutil.Error):
            found += [process] if process.name() in _COMPILERS else []
    return found


_FINDERS: dict[str, Callable[[], list[psutil.Process]]] = {
    "worker": _workers,
    "zygote": lambda: _named("zygote"),
    "bench": lambda: _named("bench"),
    "compiler": _compilers,
}
