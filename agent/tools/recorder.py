"""Keeping a bounded part of an output of any length."""

from __future__ import annotations

HEAD = 200_000
TAIL = 200_000


class Recorder:
    """The beginning and the end of a stream of bytes, and how many there were."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._most_head = head
        self._most_tail = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.total += len(piece)
        room = self._most_head - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._most_tail:
            del self._tail[: -self._most_tail]

    def text(self) -> str:
        """Return what was kept as text, saying what was not."""
        kept = self._tail[-self._most_tail :]
        left_out = self.total - len(self._head) - len(kept)
        if not left_out:
            return (self._head + kept).decode(errors="replace")
        note = f"\n[... {left_out:,} bytes were not kept ...]\n"
        return self._head.decode(errors="replace") + note + kept.decode(errors="replace")
