"""The one stream of a session, as the engine writes it: to disk, to whoever watches, and into the session's state."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from agent import events as ev
from agent.state import SessionState
from agent.store import SessionWriter, encode, read_blob
from sandbox.errors import EnvironmentFault


class Stream:
    """Stores events and passes them on.

    Args:
        writer: Where they are kept.
        output: File descriptor that gets one line an event; a watcher who went away is not waited for.
        state: What the session's events so far amount to.

    Attributes:
        listeners: Told of every event, live ones too.
    """

    def __init__(self, writer: SessionWriter, output: int, state: SessionState) -> None:
        self.writer = writer
        self.state = state
        self.listeners: list[Callable[[ev.Event], None]] = []
        self._output: int | None = output

    def emit(self, event: ev.Event) -> None:
        """Store an event (unless it is a live one), apply it, and send it to the watcher.

        Raises:
            EnvironmentFault: It cannot be stored.
        """
        if isinstance(event, ev.Live):
            line = encode(ev.to_json(event))
        else:
            _, line = self.writer.append(event)
            self.state.apply(event)
        self._send(line)
        for listener in self.listeners:  # after the watcher: a listener may well emit
            listener(event)

    def emit_anyway(self, event: ev.Event) -> None:
        """Emit a last word: if the disk does not take it, the watcher gets it at least, without a number."""
        try:
            self.emit(event)
        except EnvironmentFault:
            self._send(encode(ev.to_json(event)))

    def blob(self, data: bytes) -> str:
        """Store bytes and return their hash."""
        return self.writer.blob(data)

    def files(self, hashes: Mapping[str, str]) -> dict[str, bytes]:
        """Return the bytes of files given by their blobs."""
        return {path: read_blob(self.writer.folder, sha256) for path, sha256 in hashes.items()}

    def _send(self, line: bytes) -> None:
        if self._output is None:
            return
        try:
            while line:
                line = line[os.write(self._output, line) :]
        except OSError:
            self._output = None
