"""First paint of the IDE, in a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from agent.session import create_session
from agent.settings import Settings
from tests.bench.row import Row
from tests.bench.workspace import bench_task

FRAME_WORD = b"Source"
CONTENT_WORD = b"class"
OPEN = """
import sys
from pathlib import Path
from app.ide import run_ide
run_ide(Path(sys.argv[1]), autostart=sys.argv[2] == "True")
"""


class Ide:
    """The IDE on a session, in a pseudo-terminal of 120 by 40; a context manager that quits it.

    Attributes:
        terminal: Descriptor of the terminal's other end.
        began: When it was started (``time.perf_counter``).
    """

    def __init__(self, folder: Path, *, autostart: bool = False, **environment: str) -> None:
        self.terminal, self._inside = pty.openpty()
        fcntl.ioctl(self._inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._seen = b""
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-c", OPEN, str(folder), str(autostart)],
            stdin=self._inside,
            stdout=self._inside,
            stderr=self._inside,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            start_new_session=True,
        )

    def __enter__(self) -> Ide:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self.terminal, b"\x11")  # ctrl+q
        deadline = time.perf_counter() + 15
        while self._process.poll() is None and time.perf_counter() < deadline:
            if select.select([self.terminal], [], [], 0.2)[0]:
                os.read(self.terminal, 1 << 16)
        self._process.kill()
        self._process.wait()
        os.close(self.terminal)
        os.close(self._inside)

    def read_until(self, word: bytes, seconds: float = 30) -> float:
        """Read until a word was painted; return seconds since the start."""
        deadline = time.perf_counter() + seconds
        while word not in self._seen:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{word!r} never appeared")
            if select.select([self.terminal], [], [], 0.5)[0]:
                self._seen += os.read(self.terminal, 1 << 16)
        return time.perf_counter() - self.began


def rows(device: str) -> Iterator[Row]:
    """Open a new session five times."""
    times = sorted(_first_paint() for _ in range(5))
    frame, whole = times[2]
    yield Row("first paint of the IDE: the frame", frame, "s", 0.6, note="median of 5, from exec")
    yield Row("first paint of the IDE: the module's source", whole, "s", 1.0)


def _first_paint() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as home:
        folder = create_session(bench_task("cpu"), Settings(home=Path(home)), Path(home))
        with Ide(folder) as ide:
            return ide.read_until(FRAME_WORD), ide.read_until(CONTENT_WORD)
