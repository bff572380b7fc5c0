"""Opening a long recorded session, and how long a key waits for its paint while a model streams 200 tokens a second."""

from __future__ import annotations

import os
import select
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from agent.session import create_session
from agent.settings import Settings
from agent.store import read_events
from app.fold import fold
from app.state import SessionState
from tests.app.sessions import record_long
from tests.bench.row import Row
from tests.bench.screen import Ide
from tests.bench.workspace import bench_task
from tests.servers.openai_server import OpenAIServer, Reply

EVENTS = 10_000
TOKEN = "word "
TOKENS_A_SECOND = 200
KEYS = "абвгдежзиклмнопрстуфхцчшщыэюя"
"""Letters that the streamed answer does not hold, so that their echo is theirs."""


def rows(device: str) -> Iterator[Row]:
    """Fold a long session, then type while an answer streams."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as folder:
        session = record_long(Path(folder), EVENTS)
        began = time.perf_counter()
        state = SessionState()
        for stored in read_events(session):
            fold(state, stored.event, n=stored.n, time=stored.time)
        yield Row(f"read and fold {EVENTS:,} events", time.perf_counter() - began, "s", 0.5)
    waits = _key_waits()
    twentieth = statistics.quantiles(waits, n=20)[-1]
    yield Row("key to paint while a model streams, p95", twentieth, "ms", 80, note=f"{len(waits)} keys")
    yield Row("key to paint while a model streams, worst", max(waits), "ms", 250)


def _key_waits() -> list[float]:
    answer = Reply(text=TOKEN * TOKENS_A_SECOND * 60, pause=1 / TOKENS_A_SECOND)
    with OpenAIServer([answer]) as server, tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as home:
        settings = Settings(model="openai/bench", api_base=server.base_url, home=Path(home))
        folder = create_session(bench_task("cpu"), settings, Path(home))
        with Ide(folder, autostart=True, OPENAI_API_KEY="none") as ide:
            ide.read_until(TOKEN.strip().encode() * 1, seconds=60)
            os.write(ide.terminal, b"i")
            time.sleep(1)
            return [_wait_for_echo(ide.terminal, key) for key in KEYS * 3]


def _wait_for_echo(terminal: int, key: str) -> float:
    """Type a letter and return milliseconds until the terminal was sent it back."""
    while select.select([terminal], [], [], 0)[0]:
        os.read(terminal, 1 << 20)
    began = time.perf_counter()
    os.write(terminal, key.encode())
    seen = b""
    while key.encode() not in seen:
        if not select.select([terminal], [], [], 10)[0]:
            raise TimeoutError(f"{key} was never painted")
        seen += os.read(terminal, 1 << 20)
    waited = (time.perf_counter() - began) * 1000
    time.sleep(0.03)
    return waited
