"""Compilers of several builds on one machine: real processes that hold, wait and die."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sandbox.build import slots

HOLD = """
import sys; from pathlib import Path; from sandbox.build.slots import compile_slots, one_build
folder = Path(sys.argv[1])
with one_build(folder / "locks", "ab12", waiting=lambda: None, cancel=None):
    with compile_slots(folder / "slots", 99, waiting=lambda: None, cancel=None) as count:
        print(count, flush=True); sys.stdin.read()
"""


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with four slots and memory for them."""
    monkeypatch.setattr(slots, "slot_count", lambda: 4)
    monkeypatch.setattr(slots, "_memory", lambda kind: 64 * 1024**3)
    monkeypatch.delenv("MAX_JOBS", raising=False)


def take(folder: Path, wanted: int, told: list[str] | None = None) -> AbstractContextManager[int]:
    """Take slots; whoever has to wait notes it and gives up."""
    cancel = threading.Event()

    def waiting() -> None:
        (told if told is not None else []).append("waiting")
        cancel.set()

    return slots.compile_slots(folder, wanted, waiting=waiting, cancel=cancel)


@pytest.mark.usefixtures("four")
def test_a_build_takes_what_is_free_and_waits_when_nothing_is(tmp_path: Path) -> None:
    told: list[str] = []
    with take(tmp_path, 3) as first, take(tmp_path, 3) as second:
        assert (first, second) == (3, 1)
        with pytest.raises(InterruptedError), take(tmp_path, 1, told):
            pass
    assert told == ["waiting"]
    with take(tmp_path, 99) as all_of_them:
        assert all_of_them == 4


@pytest.mark.usefixtures("four")
def test_max_jobs_bounds_one_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_JOBS", "2")
    with take(tmp_path, 8) as first, take(tmp_path, 8) as second:
        assert (first, second) == (2, 2)
    monkeypatch.setenv("MAX_JOBS", "many")
    with take(tmp_path, 8) as count:
        assert count == 4


@pytest.mark.usefixtures("four")
def test_memory_bounds_what_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_memory", lambda kind: 2 * slots.MEMORY_EACH)
    with take(tmp_path, 4) as count:
        assert count == 2
        monkeypatch.setattr(slots, "_memory", lambda kind: slots.MEMORY_EACH - 1)
        with pytest.raises(InterruptedError), take(tmp_path, 1):
            pass
    with take(tmp_path, 4) as alone:
        assert alone == 1


def test_what_a_killed_build_held_is_free_at_once(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert int(holder.stdout.readline()) >= 1
    cancel = threading.Event()
    with (
        pytest.raises(InterruptedError),
        slots.one_build(tmp_path / "locks", "ab99", waiting=cancel.set, cancel=cancel),
    ):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with slots.one_build(tmp_path / "locks", "ab12", waiting=lambda: pytest.fail("a stale lock"), cancel=None):
        pass
    with take(tmp_path / "slots", 1) as count:
        assert count == 1


def test_slots_are_as_many_as_processors_and_memory_allow() -> None:
    assert 1 <= slots.slot_count() <= 4096
    assert 0 < slots._memory("available") <= slots._memory("total")
