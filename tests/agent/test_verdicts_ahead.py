"""Verdicts that begin while the model thinks, through the real engine over HTTP with the judge on the CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent import commands as cmd
from agent import events as ev
from agent.session import create_session, read_state
from agent.store import read_events
from sandbox.machine.pool import find_queue
from sandbox.wire import EXCLUSIVE
from tests.agent.support import make_settings, make_spec
from tests.agent.test_end_to_end import CANDIDATE, FILE, KERNEL
from tests.servers.engine_process import EngineProcess
from tests.servers.openai_server import Call, OpenAIServer, Reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("judge")]

WRONG = KERNEL.replace("y * y - in[i]", "y * y + in[i]")
"""What a busy machine cannot disturb: nothing of it is timed."""
WRITES = [
    Call("Write", {"file_path": FILE, "content": WRONG}),
    Call("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
]


def bound(before: float, after: float) -> Call:
    return Call("Edit", {"file_path": FILE, "old_string": f"y < -{before}f", "new_string": f"y < -{after}f"})


class Thinking:
    """A model that thinks until it is told to answer."""

    def __init__(self) -> None:
        self._answers = threading.Semaphore(0)
        self.thinks = threading.Semaphore(0)

    def answer(self) -> None:
        self._answers.release()

    def __call__(self, reply: Reply) -> Any:
        def answer(_request: dict[str, Any]) -> Reply:
            self.thinks.release()
            self._answers.acquire(timeout=600)
            return reply

        return answer


@pytest.fixture
def thinking() -> Iterator[Thinking]:
    model = Thinking()
    yield model
    for _ in range(9):
        model.answer()


@contextmanager
def device_taken() -> Iterator[Callable[[], None]]:
    """Have the device, so that a verdict that was begun stands still; gives a function that waits until one does."""
    queue = find_queue("cpu")
    ticket = queue.enter(EXCLUSIVE, "something else")

    def wait() -> None:
        deadline = time.monotonic() + 120
        while not any(owner and owner.yields for owner in map(queue.owner, queue.entries())):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    try:
        yield wait
    finally:
        ticket.close()
        queue.close()


def events_of(folder: Path, kind: type[ev.Event]) -> list[Any]:
    return [item.event for item in read_events(folder) if isinstance(item.event, kind)]


def test_a_check_takes_what_was_begun_while_the_model_thought_through_a_kill_and_an_edit(
    tmp_path: Path, thinking: Thinking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_POOL", str(tmp_path / "pool"))
    check = thinking(Reply(text="Now judge it.", calls=[Call("Check", {"note": "one pass"})]))
    script = [
        thinking(Reply(text="One pass.", calls=WRITES)),
        check,  # in which the engine is killed
        check,
        thinking(Reply(text="Another bound?", calls=[bound(2.0, 3.0)])),
        thinking(Reply(text="Yet another.", calls=[bound(3.0, 4.0)])),
        thinking(Reply(text="Judge that.", calls=[Call("Check")])),
        thinking(Reply(text="Done.")),
    ]
    with OpenAIServer(script) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url)
        folder = create_session(make_spec(tmp_path), settings, settings.home)
        with EngineProcess(folder) as engine:
            engine.send(cmd.Run())
            engine.wait_for(ev.OriginalProfiled)
            thinking.thinks.acquire()
            with device_taken() as wait_for_a_verdict:
                thinking.answer()
                thinking.thinks.acquire()
                wait_for_a_verdict()
                engine.process.kill()
        thinking.answer()  # to nobody
        assert read_state(folder).judged == []
        with EngineProcess(folder) as engine:
            engine.send(cmd.Run())
            thinking.thinks.acquire()
            assert events_of(folder, ev.JudgedAhead) == []
            thinking.answer()
            thinking.thinks.acquire()  # it has been judged
            with device_taken() as wait_for_a_verdict:
                for _ in range(2):
                    thinking.answer()
                    thinking.thinks.acquire()  # another bound is in
                    wait_for_a_verdict()
            thinking.answer()
            thinking.thinks.acquire()
            engine.wait_for(ev.StageAhead)
            engine.send(cmd.Interrupt())
            engine.wait_for(ev.RunEnded)
    assert events_of(folder, ev.StageAhead) == []
    ahead = events_of(folder, ev.JudgedAhead)
    assert [each.taken for each in ahead] == [True, False, True]
    assert ahead[1].seconds > 0
    attempts = events_of(folder, ev.Attempt)
    assert [attempt.verdict["verify"]["ok"] for attempt in attempts] == [False, False]
    checks = [each for each in events_of(folder, ev.ToolStarted) if each.name == "Check"]
    assert [attempt.call_id for attempt in attempts] == [check.call_id for check in checks]
    told = [len(request["messages"]) for request in server.requests]
    assert told[2] == told[1] + 1  # the notice of the new shell, and nothing of a verdict
    assert not any("Attempt" in str(message["content"]) for message in server.requests[2]["messages"][1:])
