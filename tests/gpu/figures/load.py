"""Keeps every core busy while something is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass"


@contextmanager
def load(kind: str) -> Iterator[None]:
    """Hold a load of the machine: ``quiet``, or ``busy`` with one spinning process on every core this one may use."""
    count = len(os.sched_getaffinity(0)) if kind == "busy" else 0
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
