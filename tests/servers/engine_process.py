"""The engine as the screen runs it: a process with a pipe of commands and a pipe of events."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from agent import commands, events
from agent.session import engine_command


class EngineProcess:
    """Starts the engine on a session; a context manager that leaves no process behind.

    Attributes:
        lines: Every line it has written, parsed.
        seen: Their events, without those of unknown types.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.lines: list[dict[str, object]] = []
        self.seen: list[events.Event] = []
        self._queue: queue.Queue[bytes] = queue.Queue()
        self.process = subprocess.Popen(
            engine_command(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self.errors = b""
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.close_stdin()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for thread in self._threads:
            thread.join(60)

    def send(self, command: commands.Command) -> None:
        self.send_line(json.dumps(commands.to_json(command)))

    def send_line(self, line: str) -> None:
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def close_stdin(self) -> None:
        self.process.stdin.close()

    def wait_for(
        self, kind: type[events.Event], when: Callable[..., bool] = lambda event: True, seconds: float = 120
    ) -> events.Event:
        """Return the next event of a kind for which ``when`` holds; fail with what was seen if none comes."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                line = b""
            if not line:
                tail = "\n".join(json.dumps(each)[:400] for each in self.lines[-15:])
                raise AssertionError(
                    f"no {kind.__name__} came; the last events were:\n{tail}\nstderr:\n{self.errors.decode()}"
                )
            data = json.loads(line)
            self.lines.append(data)
            event = events.from_json(data)
            self.seen.append(event)
            if isinstance(event, kind) and when(event):
                return event

    def finish(self, seconds: float = 120) -> int:
        """Wait for the end of the process and return its status; what it still wrote is in ``seen``."""
        status = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(60)
        while line := self._queue.get():
            data = json.loads(line)
            self.lines.append(data)
            self.seen.append(events.from_json(data))
        return status

    def _read(self) -> None:
        for line in self.process.stdout:
            self._queue.put(line)
        self._queue.put(b"")

    def _read_errors(self) -> None:
        for line in self.process.stderr:
            self.errors += line
