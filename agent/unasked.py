"""A quick verdict that was begun before anyone asked for it, and what it was good for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from agent.events import JUDGED
from agent.state import SessionState
from agent.store import hashes_of
from sandbox.judge import Judge
from sandbox.progress import Progress, Stage
from sandbox.verdict import Verdict


class Unasked:
    """What the judge does with one state of the workspace while the model thinks.

    It gives way to whoever waits for the device until somebody asks for it.

    Args:
        files: The state.
        before: Told of the progress until then, and with what the judge came to if nobody has asked by its end.
        progress: Told of the progress from then on.
        timed: Whether the verdict has times.

    Attributes:
        task: Returns the verdict; null where another session of the search has one.
    """

    task: asyncio.Task[Verdict | None]

    def __init__(self, files: Mapping[str, bytes], before: Progress, progress: Progress, *, timed: bool) -> None:
        self.files = dict(files)
        self._before = before
        self._progress = progress
        self._timed = timed
        self._asked = threading.Event()
        self._began = self._ended = 0.0

    def ask(self) -> None:
        """Somebody asks for it: it gives way no longer."""
        self._asked.set()

    @property
    def seconds(self) -> float:
        """How long the judge has worked on it so far."""
        return (self._ended or time.monotonic()) - self._began if self._began else 0.0

    def judge(self, judge: Judge, folder: Path, cancel: threading.Event) -> Verdict:
        """Do it, in the judge's thread."""
        self._began = time.monotonic()
        try:
            verdict = judge.check(folder, "quick", self._tell, cancel, asked=self._asked, timed=self._timed)
        finally:
            self._ended = time.monotonic()
        if not self._asked.is_set():
            self._before(Stage(JUDGED, in_short(verdict)))
        return verdict

    def _tell(self, stage: Stage) -> None:
        (self._progress if self._asked.is_set() else self._before)(stage)


def in_short(verdict: Verdict) -> str:
    """Return what a verdict comes to, for the line that says what goes on."""
    eager = verdict.over_eager
    if verdict.reward is None:
        return "not timed" if verdict.correct else "no verdict"
    return f"{eager.ratio:.2f}× eager" if eager else f"reward {verdict.reward}"


def worth_judging(files: Mapping[str, bytes], module: str, state: SessionState) -> bool:
    """Whether a verdict can tell anything: the module has changed, so that it may call kernels, and these were not judged."""
    hashes = hashes_of(files)
    changed = hashes[module] != state.original_files.get(module)
    return changed and all(judged.files != hashes for judged in state.judged)
