"""First paint of the IDE, and how long a key waits for its paint while a model streams, in a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.row import Row
from tests.bench.workspace import bench_task

FRAME_WORD = b"Source"
OPEN = "import sys; from pathlib import Path; from app.ide import run_ide; run_ide(Path(sys.argv[1]))"


def rows(device: str) -> Iterator[Row]:
    """Open a new session in a pseudo-terminal five times."""
    times = sorted(_first_paint() for _ in range(5))
    yield Row("first paint of the IDE", times[2], "s", 1.0, note="median of 5, from exec to the source tab's name")


def _first_paint() -> float:
    from agent.session import create_session
    from agent.settings import Settings

    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as home:
        folder = create_session(bench_task("cpu"), Settings(home=Path(home)), Path(home))
        primary, secondary = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        command = [sys.executable, "-c", OPEN]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, str(folder)],
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            env=environment,
            start_new_session=True,
        )
        try:
            _read_until(primary, FRAME_WORD, deadline=began + 30)
            return time.perf_counter() - began
        finally:
            os.write(primary, b"\x11")  # ctrl+q
            _drain_until_exit(primary, process)
            os.close(primary)
            os.close(secondary)


def _read_until(terminal: int, word: bytes, deadline: float) -> None:
    seen = b""
    while word not in seen:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{word!r} never appeared")
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 65_536)


def _drain_until_exit(terminal: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.perf_counter() + 15
    while process.poll() is None and time.perf_counter() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            os.read(terminal, 65_536)
    process.kill()
    process.wait()
