"""Work on a device that nobody waits for, in the pieces between the work of those who do."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Iterator, Optional, Sequence

from warpsmith_harness.device_queue import EXCLUSIVE, SHARED, QueueStuck, Ticket, open_queue


class SpareTime:
    """Lets a process work on a device in pieces, while nobody has it alone or waits to.

    Args:
        folders: Of the queue, the one to use first.
        device: Its name.
        task: What is worked for.
    """

    def __init__(self, folders: Sequence[str], device: str, task: str) -> None:
        self._queue = open_queue([Path(folder) for folder in folders], device)
        self._work = f"preparing the next check of {task}"
        self._ticket: Optional[Ticket] = None

    @contextlib.contextmanager
    def piece(self) -> Iterator[bool]:
        """Share the device for one piece of work, if that is in nobody's way; tells whether it is not."""
        if self._wanted() or not self._enter():
            yield False
            return
        assert self._ticket is not None  # _enter() made it
        try:
            yield not self._ticket.ahead()
        finally:
            self._ticket.close()

    def over(self) -> bool:
        """Tell, in the midst of a piece, whether somebody wants the device alone by now."""
        if self._ticket is not None:
            self._ticket.beat()
        return self._wanted()

    def _enter(self) -> bool:
        try:
            self._ticket = self._queue.enter(SHARED, self._work, yields=True)
        except QueueStuck:
            return False
        return True

    def _wanted(self) -> bool:
        try:
            return any(entry.mode == EXCLUSIVE for entry in self._queue.entries())
        except QueueStuck:
            return True
