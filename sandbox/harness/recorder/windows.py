"""Steps of the program, and the windows of steps that are left alone, recorded and captured in turns.

A step ends where an optimizer steps; in a program without one, where its outermost module is called again. Comparing
recorded windows with their neighbours that were left alone tells what recording costs.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

_WINDOW_NS = 500_000_000
_WARM_UP_STEPS = 2
_ADOPT_AFTER = 4
_MOST_WINDOWS = 4000

OPTIMIZER, MODULE = "optimizer", "module"
WARM_UP, PLAIN, RECORDED, CAPTURED = "warm-up", "plain", "recorded", "captured"


class StepMarker:
    """Chooses whose events end a step: the first optimizer's, else the first outermost module's, until others took over."""

    def __init__(self) -> None:
        self.kind = ""
        self.name = ""
        self._subject: Optional[int] = None
        self._others = 0

    def ends_step(self, kind: str, subject: Any) -> bool:
        """Tell whether an event ends a step."""
        if kind == MODULE and self.kind == OPTIMIZER:
            return False
        takes_over = self._subject is None or self._others >= _ADOPT_AFTER or kind != self.kind
        if takes_over:
            self.kind, self.name, self._subject = kind, type(subject).__name__, id(subject)
        known = id(subject) == self._subject
        self._others = 0 if known else self._others + 1
        return known


class Window:
    """A stretch of whole steps of one kind: ``warm-up``, ``plain``, ``recorded`` or ``captured``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.recorded = kind in (WARM_UP, RECORDED)
        self.captured = kind in (WARM_UP, CAPTURED)
        self.steps = 0
        self.begun = time.perf_counter_ns()
        self.ended = 0

    @property
    def is_long_enough(self) -> bool:
        """Whether another window may follow."""
        if self.kind == WARM_UP:
            return self.steps >= _WARM_UP_STEPS
        return self.steps >= 1 and (self.kind == CAPTURED or time.perf_counter_ns() - self.begun >= _WINDOW_NS)

    def to_json(self) -> Dict[str, Any]:
        """Return it as JSON data."""
        return {"kind": self.kind, "steps": self.steps, "seconds": (self.ended - self.begun) / 1e9}


class Windows:
    """The windows so far; the first one is the program's warm-up, which is recorded and captured.

    Args:
        captures: Whether windows for captures are wanted.
    """

    def __init__(self, captures: bool) -> None:
        self.now = Window(WARM_UP)
        self.past: List[Window] = []
        self.steps = 0
        self._turns = {WARM_UP: PLAIN, PLAIN: RECORDED, RECORDED: CAPTURED if captures else PLAIN, CAPTURED: PLAIN}

    def step(self) -> bool:
        """Count a step; tell whether its end is also the window's."""
        self.steps += 1
        self.now.steps += 1
        return self.now.is_long_enough

    def close(self) -> None:
        """End the window at this moment."""
        self.now.ended = time.perf_counter_ns()
        if len(self.past) < _MOST_WINDOWS:
            self.past.append(self.now)

    def turn(self) -> None:
        """Begin the next window, of the next kind."""
        self.now = Window(self._turns[self.now.kind])

    def restart(self) -> None:
        """Begin anew, because what counts as a step has changed."""
        self.past, self.steps = [], 0
        self.now = Window(WARM_UP)
