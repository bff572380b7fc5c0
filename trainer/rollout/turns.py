"""One device for policy and judge: the policy works in short turns, each under a lease of the judges' queue.

A judge that times a candidate has the device alone, and whoever waits for that gets it between two turns. On the CPU it
is the same: what is timed is not disturbed by a policy that writes, or learns, on the same cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.machine.devices import gpu_of
from sandbox.machine.pool import Pool
from sandbox.progress import silent
from sandbox.wire import device_name

TURN_SECONDS = 0.5


class DeviceTurns:
    """A share of one device.

    Args:
        device: ``cpu`` or ``cuda:N``.
        work: What the policy does there; others are told while they wait.

        check: Called while the device is waited for; raises to give up.
    """

    def __init__(self, device: str, work: str, check: Callable[[], None]) -> None:
        gpu = gpu_of(device)
        self._pool = Pool(device_name(gpu.uuid if gpu else "", device), work, check)

    @property
    def waited(self) -> float:
        """Seconds that others had the device alone."""
        return self._pool.waited

    @contextmanager
    def turn(self, doing: str) -> Iterator[float]:
        """Work on the device; yields when the turn should be over, as ``time.monotonic()`` has it."""
        with self._pool.shared("policy", doing, silent):
            yield time.monotonic() + TURN_SECONDS
