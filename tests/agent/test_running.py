"""The end of a run that nobody foresaw."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import events as ev
from agent import running
from agent.events import EndReason
from agent.model import Answer
from agent.running import Running
from agent.session import create_session, open_session
from agent.state import SessionState
from agent.store import SessionWriter, read_events
from agent.stream import Stream
from sandbox.workspace import Workspace
from tests.agent.support import make_settings, make_spec


class Faulty:
    """A client of a model with a mistake of ours in it, and none when it is asked again."""

    context_tokens = None

    def __init__(self) -> None:
        self.outcomes: Iterator[str | Exception] = iter([ZeroDivisionError("of hf_" + "aB3" * 10), "Done.", "Done."])

    async def answer(self, *_: Any) -> Answer:
        outcome = next(self.outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return Answer(message={"role": "assistant", "content": outcome}, finish_reason="stop", model="faulty")

    async def priced(self) -> bool:
        return True

    def observe(self, event: ev.Event) -> None:
        pass


async def test_a_fault_of_ours_ends_the_run_as_that_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Faulty()
    monkeypatch.setattr(running, "make_model", lambda *_: model)
    settings = make_settings(tmp_path, model="openai/faulty")
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    session, writer = open_session(folder), SessionWriter(folder)
    stream = Stream(writer, os.open(os.devnull, os.O_WRONLY), SessionState())
    workspace = Workspace.create(session.task, session.workspace)
    files = {path: stream.blob(content) for path, content in workspace.files().items()}
    stream.emit(ev.SessionStarted(task={}, model="", device="cpu", versions={}, files=files))
    ended: asyncio.Queue[ev.RunEnded] = asyncio.Queue()
    stream.listeners.append(lambda event: ended.put_nowait(event) if isinstance(event, ev.RunEnded) else None)
    run = Running(session, stream, workspace)
    ends = []
    for _ in range(2):
        run.start()
        ends.append(await ended.get())
        while run.busy:
            await asyncio.sleep(0.01)
    await run.close()
    writer.close()
    assert [item.event for item in read_events(folder) if isinstance(item.event, ev.RunEnded)] == ends
    assert [end.reason for end in ends] == [EndReason.INTERNAL_ERROR, EndReason.FINISHED]
    assert ends[0].detail == "ZeroDivisionError: of [redacted: token]"
