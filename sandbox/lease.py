"""Exclusive use of a device while something is timed on it: two judges of one machine never time at once."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.05


@contextmanager
def lease(folder: Path, device: str, waiting: Callable[[], None], check: Callable[[], None]) -> Iterator[None]:
    """Hold a device alone; the lock goes with the process that holds it, however that ends.

    Args:
        folder: Where lock files are.
        device: A name of the device that every process of this machine gives it.
        waiting: Called once if another process holds it.
        check: Called while waiting; raises to give up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^\w.-]", "_", device) + ".lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        told = False
        while not _taken(descriptor):
            if not told:
                waiting()
                told = True
            check()
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
