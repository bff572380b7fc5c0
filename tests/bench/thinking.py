"""What a session gains when the judge works while the model thinks: from an edit to its Check's answer, with and without."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from agent import commands as cmd
from agent import events as ev
from agent.session import create_session
from agent.settings import Settings
from agent.store import read_events
from tests.bench.row import Row
from tests.bench.workspace import bench_task, edit, make_workspace
from tests.servers.engine_process import EngineProcess
from tests.servers.openai_server import Call, OpenAIServer, Reply
from tests.servers.provider import Scripted

THINKING = 6.0
"""Seconds from the end of an answer that edits to the answer that checks: few for a model that reasons."""
ROUNDS = 2


def rows(device: str) -> Iterator[Row]:
    """Play the same session twice; the first round of each, in which baselines are compiled, is not counted."""
    waits: dict[bool, float] = {}
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as folder:
        for ahead in (False, True):
            stored = _session(Path(folder) / str(ahead), Path(folder) / "cache", device, ahead=ahead)
            waits[ahead] = fmean(_wait(check, stored) for check in _checks(stored)[1:])
            taken = sum(isinstance(each, ev.JudgedAhead) and each.taken for _, each in stored)
            note = f"mean of {ROUNDS}, beside {THINKING:g} s of thinking; {taken} of {ROUNDS + 1} were judged meanwhile"
            what = "judged while it thinks" if ahead else "judged when asked"
            yield Row(
                f"edit to its Check's answer, {what}", waits[ahead], "s", None, waits[False] if ahead else None, note
            )


Stored = list[tuple[float, ev.Event]]


def _checks(stored: Stored) -> list[int]:
    return [n for n, (_, each) in enumerate(stored) if isinstance(each, ev.ToolFinished) and each.name == "Check"]


def _wait(check: int, stored: Stored) -> float:
    """Return the time from the edit before a Check to its answer, without the thinking."""
    before = [at for at, each in stored[:check] if isinstance(each, ev.ToolFinished) and each.name == "Write"]
    return stored[check][0] - before[-1] - THINKING


def _session(folder: Path, cache: Path, device: str, *, ahead: bool) -> Stored:
    with OpenAIServer(list(_script(folder / "candidate", device))) as server:
        settings = Settings(
            model="openai/test",
            api_base=server.base_url,
            home=folder / "home",
            cache=cache,
            device=device,
            contrast=False,
            verdicts_ahead=ahead,
        )
        session = create_session(bench_task(device), settings, settings.home)
        with EngineProcess(session, OPENAI_API_KEY="none") as engine:
            engine.send(cmd.Run())
            for _ in range(ROUNDS + 1):
                engine.wait_for(ev.ToolFinished, lambda event: event.name == "Check", seconds=600)
            engine.send(cmd.Interrupt())
            engine.wait_for(ev.RunEnded, seconds=60)
    return [(item.time, item.event) for item in read_events(session)]


def _script(folder: Path, device: str) -> Iterator[Scripted]:
    make_workspace(folder, device)
    kernel = next((folder / "kernels").iterdir())
    module = Call("Write", {"file_path": "model_new.py", "content": (folder / "model_new.py").read_text()})
    for number in range(ROUNDS + 1):
        edit(folder)
        write = Call("Write", {"file_path": f"kernels/{kernel.name}", "content": kernel.read_text()})
        yield Reply(text="Another way.", calls=[module, write] if number == 0 else [write])
        yield _thinking
    yield _thinking


def _thinking(_request: dict[str, Any]) -> Reply:
    time.sleep(THINKING)
    return Reply(text="Judge it.", calls=[Call("Check")])
