"""What the first process of a cell looks after itself, because neither a control group nor a limit of the kernel does."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple, Optional

from warpsmith_harness.disk import DiskWatch
from warpsmith_harness.processes import descendants, memory_of_descendants


class Bounds(NamedTuple):
    """Bounds of all that descends from this process: bytes held, processes, bytes written. None is no bound."""

    memory: Optional[int]
    tasks: Optional[int]
    disk: DiskWatch

    @property
    def needed(self) -> bool:
        """Whether there is anything to look at."""
        return self.memory is not None or self.tasks is not None or self.disk.needed

    def exceeded(self) -> int:
        """Return the signal that the cell shall end by, 0 while it keeps its bounds."""
        if self.memory is not None and memory_of_descendants() > self.memory:
            return signal.SIGKILL
        if self.tasks is not None and len(descendants(os.getpid())) > self.tasks:
            return signal.SIGKILL
        return signal.SIGXFSZ if self.disk.exceeded() else 0
