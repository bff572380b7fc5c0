"""How many processors programs that are not the developer's command kept busy while it was watched."""

from __future__ import annotations

import contextlib
import os
import time

import psutil

from sandbox.processes import descendants

_LEAST = 0.25
_LEAST_SHARE = 0.05
_IDLE = {"idle", "iowait", "guest", "guest_nice"}
"""What is no work of a processor, or is part of another figure already."""


class OthersWatch:
    """Compares what all processors did with what this process and its descendants, the command's among them, had of them."""

    def __init__(self) -> None:
        self._ours: dict[tuple[int, float], float] = {}
        self.look()
        self._began, self._all, self._had = time.monotonic(), _all_seconds(), sum(self._ours.values())

    def look(self) -> None:
        """Note what our processes have had so far; of one that ends, what it had at the last look counts."""
        for process in (psutil.Process(), *descendants(os.getpid())):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._ours[(process.pid, process.create_time())] = times.user + times.system

    def processors(self) -> float:
        """Return how many processors others kept busy since the watch began; 0 where it is too little to matter."""
        self.look()
        passed = max(time.monotonic() - self._began, 1e-3)
        others = (_all_seconds() - self._all - (sum(self._ours.values()) - self._had)) / passed
        return others if others >= max(_LEAST, _LEAST_SHARE * (psutil.cpu_count() or 1)) else 0.0


def _all_seconds() -> float:
    times = psutil.cpu_times()._asdict()
    return float(sum(seconds for kind, seconds in times.items() if kind not in _IDLE))
