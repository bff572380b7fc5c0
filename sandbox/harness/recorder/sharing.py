"""Shares out the marks of windows once the device has come by them, the warm-up's only where there is nothing else."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, NamedTuple

from .classes import ModuleKind
from .timeline import CLOSE, Mark, Timeline
from .windows import WARM_UP, Window

_LAST_WAIT_SECONDS = 2.0


class _Waiting(NamedTuple):
    """Marks of a window, and whether they are its last."""

    window: Window
    marks: List[Mark]
    ends: bool


class Sharing:
    """What waits for the device, and the timeline it is shared out on.

    Args:
        take_back: Takes the events that nobody needs any more.
        kinds: The classes that were called, whose times of the warm-up are forgotten.
    """

    def __init__(self, take_back: Callable[[Any], None], kinds: Dict[Any, ModuleKind]) -> None:
        self.timeline = Timeline(take_back)
        self._kinds = kinds
        self._waiting: List[_Waiting] = []
        self._warm_up_kept = True

    def take(self, window: Window, marks: List[Mark], ends: bool) -> None:
        """Take marks of a window, which are its last if it ends with them."""
        self._waiting.append(_Waiting(window, marks, ends))

    def go_on(self) -> None:
        """Share out what the device has come by; never waits."""
        while self._waiting and self.timeline.ready(self._waiting[0].marks):
            window, marks, ends = self._waiting.pop(0)
            if self._warm_up_kept and window.kind != WARM_UP and any(mark.what == CLOSE for mark in marks):
                self._forget_warm_up()
            self.timeline.share_out(marks)
            if ends:
                self.timeline.end_window()

    def restart(self) -> None:
        """Forget what was shared out: the steps that it was told of were none."""
        self._forget_times()
        self._warm_up_kept = True

    def wait(self) -> None:
        """Share out everything, and give the device a moment for it."""
        end = time.monotonic() + _LAST_WAIT_SECONDS
        self.go_on()
        while self._waiting and time.monotonic() < end:
            time.sleep(0.01)
            self.go_on()

    def _forget_warm_up(self) -> None:
        """What was slow only the first time is no part of a share, once there is anything else."""
        self._warm_up_kept = False
        self._forget_times()

    def _forget_times(self) -> None:
        self.timeline.forget()
        for kind in self._kinds.values():
            kind.forget()
