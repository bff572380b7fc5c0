"""The queue for a device among real processes: fair, exclusive, and free of whoever dies or stands still."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from warpsmith_harness.spare_time import SpareTime

from sandbox.errors import EnvironmentFault
from sandbox.machine.pool import Pool, find_queue
from sandbox.progress import Stage, silent
from sandbox.wire import EXCLUSIVE, SHARED, DeviceQueue, device_name

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys, time
import sandbox.machine.pool as pool
pool._LOST_SECONDS = float(sys.argv[2])
pool.BEAT_SECONDS = 0.05
own = pool.Pool("gpu", "blocks:Norm", lambda: None)
def tell(stage):
    if "waiting_for" in stage.partial:
        print(stage.text, flush=True)
with getattr(own, sys.argv[1])("profile", "timing", tell) as lease:
    print("mine", flush=True)
    for _ in sys.stdin:
        print(lease.trouble() or "quiet", flush=True)
"""
EXPIRY_SECONDS = 2.0
"""Of a lease that is to run out; a busy machine may well keep a process waiting for a part of that."""


class Judge:
    """A process that queues for the device named ``gpu``, holds it until told to ask for trouble, and prints what it knows."""

    def __init__(self, mode: str, user: str | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, mode, str(EXPIRY_SECONDS)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=user,
        )
        self.pid = self.process.pid

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def trouble(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.says()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue of this test's own."""
    monkeypatch.setenv("WARPSMITH_POOL", str(tmp_path / "pool"))
    return tmp_path / "pool"


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Judge]]:  # the variable has to be set
    started: list[Judge] = []

    def start(mode: str = "exclusive", user: str | None = None) -> Judge:
        started.append(Judge(mode, user))
        return started[-1]

    yield start
    for judge in started:
        judge.kill()


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_first_come_first_served_and_whoever_is_killed_keeps_nobody_waiting(start: Callable[..., Judge]) -> None:
    holder = start()
    assert holder.says() == "mine"
    judges = []
    for _ in range(3):
        judges.append(start())
        assert judges[-1].says().startswith(f"waiting for pid {holder.pid} (timing blocks:Norm, ")
    judges[1].kill()
    holder.kill()
    assert judges[0].says() == "mine"
    assert judges[2].says().startswith(f"waiting for pid {judges[0].pid} ")
    judges[0].kill()
    assert judges[2].says() == "mine"


def test_sharing_is_beside_sharing_and_waits_behind_whoever_wants_it_alone(start: Callable[..., Judge]) -> None:
    sharing = []
    for _ in range(2):
        sharing.append(start("shared"))
        assert sharing[-1].says() == "mine"
    alone = start()
    assert alone.says().endswith("and 1 more")
    late = start("shared")
    assert late.says().startswith(f"waiting for pid {alone.pid} ")
    sharing[0].kill()
    assert alone.says().startswith(f"waiting for pid {sharing[1].pid} ")
    sharing[1].kill()
    assert alone.says() == "mine"
    alone.kill()
    assert late.says() == "mine"


def test_waiting_is_counted_apart_and_can_be_given_up(start: Callable[..., Judge]) -> None:
    holder = start()
    assert holder.says() == "mine"
    stages: list[Stage] = []

    def impatient() -> None:
        if len(looks) == 3:
            raise InterruptedError
        looks.append(None)

    looks: list[None] = []
    pool = Pool("gpu", "other:Task", impatient)
    with pytest.raises(InterruptedError), pool.exclusive("profile", "timing", stages.append):
        pass
    assert [stage.partial for stage in stages] == [{"waiting_for": holder.pid}]
    assert pool.waited == 0.0
    looks.clear()
    pool = Pool("gpu", "other:Task", holder.kill)
    with pool.exclusive("profile", "timing", silent), pool.shared("verify", "verifying", silent) as again:
        assert pool.waited > 0
        assert again.trouble() == ""


def test_an_owner_that_stands_still_is_passed_over_and_everybody_learns_it(
    start: Callable[..., Judge], folder: Path
) -> None:
    holder = start()
    assert holder.says() == "mine"
    assert holder.trouble() == "quiet"
    queue = DeviceQueue(folder, "gpu", expiry=EXPIRY_SECONDS, observed=1.5 * EXPIRY_SECONDS)
    ticket = queue.enter(EXCLUSIVE, "timing")
    os.kill(holder.pid, signal.SIGSTOP)
    assert ticket.ahead()
    wait_for(lambda: not ticket.ahead())
    assert len(ticket.passed) == 1
    assert not ticket.moved()
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.trouble().startswith("this process stood still for ")
    wait_for(ticket.moved)
    assert ticket.moved()
    holder.kill()
    assert ticket.moved()
    assert not ticket.moved()
    ticket.close()
    queue.close()


def test_preparing_ahead_is_in_nobodys_way(folder: Path) -> None:
    spare = SpareTime([str(folder)], "gpu", "Norm")
    queue = DeviceQueue(folder, "gpu")
    shared = queue.enter(SHARED, "verifying")
    with spare.piece() as free:
        assert free
        assert not spare.over()
        alone = queue.enter(EXCLUSIVE, "timing")
        assert spare.over()
        assert alone.ahead()
    shared.close()
    assert not alone.ahead()
    with spare.piece() as free:
        assert not free
    alone.close()
    with spare.piece() as free:
        assert free
    queue.close()


def test_what_nobody_asked_for_gives_way_to_what_was_asked_for_and_to_nothing_else(folder: Path) -> None:
    queue = DeviceQueue(folder, "gpu")
    unasked = queue.enter(EXCLUSIVE, "timing", yields=True)
    also_unasked = queue.enter(EXCLUSIVE, "timing", yields=True)
    assert not unasked.wanted()
    asked = queue.enter(SHARED, "verifying")
    assert unasked.wanted()
    assert also_unasked.wanted()
    asked.close()
    assert not unasked.wanted()
    also_unasked.insist()
    assert unasked.wanted()
    sharing = queue.enter(SHARED, "verifying", yields=True)
    beside = queue.enter(SHARED, "verifying")
    assert not sharing.wanted()
    for ticket in (unasked, also_unasked, sharing, beside):
        ticket.close()
    queue.close()


def test_whoever_comes_later_chooses_another_device(folder: Path) -> None:
    queue = DeviceQueue(folder, "any")
    devices = [("first", 0), ("second", 30), ("third", 10)]
    taken = [queue.settle(devices, "a session") for _ in range(4)]
    assert [place for place, _ in taken] == [0, 2, 1, 0]
    taken[1][1].close()
    assert queue.settle(devices, "a session")[0] == 2
    assert not DeviceQueue(folder, "first").enter(EXCLUSIVE, "timing").ahead()
    queue.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_waits_in_the_same_queue(
    start: Callable[..., Judge], folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nobody = pwd.getpwuid(65534).pw_name
    place = Path("/dev/shm") / f"warpsmith-pool-test-{os.getpid()}"  # temporary folders are root's own
    monkeypatch.setenv("WARPSMITH_POOL", str(place))
    try:
        holder = Pool("gpu", "blocks:Norm", lambda: None)
        with holder.exclusive("profile", "timing", silent):
            script = (ROOT / "sandbox/harness/warpsmith_harness/device_queue.py").read_text()
            script += "\nimport sys"
            script += "\nq = DeviceQueue(Path(sys.argv[1]), 'gpu')\nt = q.enter(EXCLUSIVE, 'x')\n"
            script += "print(len(t.ahead()), q.owner(t.ahead()[0]).user); t.close()"
            ran = subprocess.run(
                ["/usr/bin/python3", "-c", script, place], capture_output=True, text=True, user=nobody, check=False
            )
        assert ran.stdout.split() == ["1", "root"], ran.stderr
        assert not list(place.iterdir())
    finally:
        for left in place.iterdir():
            left.unlink()
        place.rmdir()


def test_links_and_pipes_are_no_tickets(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    queue = find_queue("gpu")
    (folder / "gpu.000000000001.exclusive").symlink_to(victim)
    os.mkfifo(folder / "gpu.000000000002.exclusive")
    (folder / "gpu.000000000003.exclusive").write_text("no owner any more")
    ticket = queue.enter(EXCLUSIVE, "timing")
    assert not ticket.ahead()
    assert victim.read_text() == "precious"
    assert (folder.stat().st_mode & 0o7777) == 0o1777
    ticket.close()
    queue.close()
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    monkeypatch.setenv("WARPSMITH_POOL", str(tmp_path / "link"))
    with pytest.raises(EnvironmentFault, match="no place where judges of this machine see each other"):
        find_queue("gpu")


def test_a_device_has_one_name_however_its_uuid_is_written() -> None:
    assert {device_name(uuid, "cuda:0") for uuid in ("GPU-1f3b9c", "1f3b9c", "MIG-1F3B9C")} == {"1f3b9c"}
    assert device_name("", "cpu") == "cpu"
