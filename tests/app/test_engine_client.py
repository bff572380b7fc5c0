import asyncio
import sys
from pathlib import Path

import pytest

from agent import events
from agent.commands import Run, Steer
from app.engine_client import Arrival, EngineClient, EngineExit
from tests.app import sessions

FAKE = Path(__file__).with_name("fake_engine.py")


class Listener:
    def __init__(self, *argv: str) -> None:
        self.batches: list[list[Arrival]] = []
        self.exits: list[EngineExit] = []
        self.client = EngineClient([sys.executable, *argv], self.batches.append, self.exits.append)

    @property
    def arrivals(self) -> list[Arrival]:
        return [arrival for batch in self.batches for arrival in batch]

    async def until(self, kind: type[events.Event], count: int = 1) -> None:
        async with asyncio.timeout(60):
            while sum(isinstance(arrival.event, kind) for arrival in self.arrivals) < count:
                await asyncio.sleep(0.02)

    async def until_exit(self) -> EngineExit:
        async with asyncio.timeout(60):
            while not self.exits:
                await asyncio.sleep(0.02)
        return self.exits[0]


async def test_events_arrive_in_order_and_the_engine_closes(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    listener = Listener(str(FAKE), str(folder))
    listener.client.send(Run())
    await listener.client.start()
    await listener.until(events.RunEnded)
    listener.client.send(Steer("faster"))
    await listener.client.close()
    numbers = [arrival.n for arrival in listener.arrivals if arrival.n is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    assert isinstance(listener.arrivals[0].event, events.EngineReady)
    heard = (folder / "commands.jsonl").read_text().splitlines()
    assert heard == ['{"type": "run", "rest": false}', '{"type": "steer", "text": "faster"}', '{"type": "close"}']
    assert not listener.client.alive
    assert listener.exits == []


async def test_deltas_are_merged_and_nothing_of_them_is_lost(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path, upto="opening")
    listener = Listener(str(FAKE), str(folder), "--deltas", "150")
    listener.client.send(Run())
    await listener.client.start()
    await listener.until(events.RunStarted)
    await listener.client.close()
    deltas = [a.event for a in listener.arrivals if isinstance(a.event, events.Delta)]
    assert len(deltas) < 150
    told = "".join("\n\n" if n % 60 == 59 else f"word{n} " for n in range(150))
    assert "".join(delta.text for delta in deltas) == told


async def test_deltas_of_different_places_are_not_merged() -> None:
    listener = Listener()
    for kind, call in [("text", None), ("tool", 0), ("tool", 0), ("tool", 1)]:
        listener.client._enqueue(Arrival(events.Delta(turn=1, kind=kind, text="x", call=call)))
    listener.client.deliver()
    assert [a.event.text for a in listener.arrivals] == ["x", "xx", "x"]


async def test_a_death_is_told_with_its_last_words(tmp_path: Path) -> None:
    folder = sessions.record(tmp_path)
    listener = Listener(str(FAKE), str(folder), "--die", "7")
    listener.client.send(Run())
    await listener.client.start()
    died = await listener.until_exit()
    assert died.how == "exit code 7"
    assert "disk is on fire" in died.last_words
    listener.client.send(Run())
    await listener.client.close()


async def test_a_death_by_signal_is_told_even_if_a_descendant_holds_the_pipe(tmp_path: Path) -> None:
    code = "import os, signal, subprocess; subprocess.Popen(['sleep', '5']); os.kill(os.getpid(), signal.SIGKILL)"
    listener = Listener("-c", code)
    await listener.client.start()
    died = await listener.until_exit()
    assert died.how == "SIGKILL"
    await listener.client.close()


async def test_a_line_longer_than_any_buffer_arrives_whole() -> None:
    code = "import json; print(json.dumps({'type': 'steered', 'n': 1, 'text': 'x' * 3_000_000}))"
    listener = Listener("-c", code)
    await listener.client.start()
    await listener.until_exit()
    assert [len(a.event.text) for a in listener.arrivals] == [3_000_000]
    await listener.client.close()


async def test_what_is_no_event_is_kept_as_last_words() -> None:
    listener = Listener("-c", "print('hello'); print('{\"n\": 1}'); print('[1]'); raise SystemExit(3)")
    await listener.client.start()
    died = await listener.until_exit()
    assert died.status == 3
    assert "hello" in died.last_words
    await listener.client.close()


async def test_an_engine_that_ignores_close_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine_client.CLOSE_SECONDS", 0.3)
    monkeypatch.setattr("app.engine_client.TERMINATE_SECONDS", 0.3)
    ready = '{"type": "engine_ready", "session": "", "folder": ""}'
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    code = f"{ignore}; print({ready!r}, flush=True); time.sleep(60)"
    listener = Listener("-c", code)
    await listener.client.start()
    await listener.until(events.EngineReady)
    await listener.client.close()
    assert not listener.client.alive
