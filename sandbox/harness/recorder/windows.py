"""Steps of the program, and the windows of steps that are recorded and left alone in turns.

A step ends where an optimizer steps; in a program without one, where its outermost module is called again. Comparing
windows with their neighbours tells what recording costs.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

_WINDOW_NS = 500_000_000
_WARM_UP_STEPS = 2
_ADOPT_AFTER = 4
_MOST_WINDOWS = 4000

OPTIMIZER, MODULE = "optimizer", "module"


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
        if kind == OPTIMIZER and self.kind == MODULE:
            self._adopt(kind, subject)
            return True
        if self._subject is None or self._others >= _ADOPT_AFTER:
            self._adopt(kind, subject)
            return True
        if id(subject) == self._subject:
            self._others = 0
            return True
        self._others += 1
        return False

    def _adopt(self, kind: str, subject: Any) -> None:
        self.kind, self.name, self._subject, self._others = kind, type(subject).__name__, id(subject), 0


class Window:
    """A stretch of whole steps that was recorded, or was not."""

    def __init__(self, recorded: bool, warm_up: bool) -> None:
        self.recorded = recorded
        self.warm_up = warm_up
        self.steps = 0
        self.begun = time.perf_counter_ns()
        self.ended = 0

    @property
    def is_long_enough(self) -> bool:
        """Whether another window may follow."""
        least = _WARM_UP_STEPS if self.warm_up else 1
        return self.steps >= least and (self.warm_up or time.perf_counter_ns() - self.begun >= _WINDOW_NS)

    def to_json(self) -> Dict[str, Any]:
        """Return it as JSON data."""
        return {
            "recorded": self.recorded,
            "warm_up": self.warm_up,
            "steps": self.steps,
            "seconds": (self.ended - self.begun) / 1e9,
        }


class Windows:
    """The windows so far; the first one is recorded, and is the program's warm-up."""

    def __init__(self) -> None:
        self.now = Window(recorded=True, warm_up=True)
        self.past: List[Window] = []
        self.steps = 0

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
        """Begin the next window, of the other kind; right after the warm-up it is a plain one."""
        self.now = Window(recorded=not self.now.recorded, warm_up=False)

    def restart(self) -> None:
        """Begin anew, because what counts as a step has changed."""
        self.past, self.steps = [], 0
        self.now = Window(recorded=self.now.recorded, warm_up=True)
