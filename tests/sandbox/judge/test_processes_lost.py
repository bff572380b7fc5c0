"""Killing any process of the judge's costs at most time."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.processes import ProcessLost
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import REFERENCE, Write, kernel, write_task


def _named(role: str) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += [process] if role in process.cmdline()[2:3] else []
    return found


def _worker() -> list[psutil.Process]:
    zygotes = _named("zygote")
    found = []
    for process in zygotes:
        with contextlib.suppress(psutil.Error):
            found += [process] if process.parent() in zygotes else []
    return found


def _when_there(find: Callable[[], list[psutil.Process]]) -> None:
    deadline = time.monotonic() + 20
    while not find() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    for process in find()[:1]:
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.mark.parametrize("role", ["bench", "zygote"])
def test_killed_between_two_checks(judge: Judge, candidate: Write, role: str) -> None:
    for process in _named(role):
        process.kill()
        process.wait()
    assert judge.check(candidate()).correct


def test_a_worker_of_a_zygote_that_was_given_up_meanwhile_is_lost_with_it(judge: Judge, candidate: Write) -> None:
    crew = judge._opened()[0]
    [worker] = crew.begin_workers(1, [], None, {})
    crew.await_workers([worker])
    worker._parent.stop()
    with pytest.raises(ProcessLost):
        worker.ask({"op": "probe"}, 5.0)
    assert judge.check(candidate()).correct


@pytest.mark.parametrize(
    "find", [lambda: _named("bench"), lambda: _named("zygote"), _worker], ids=["bench", "zygote", "worker"]
)
def test_killed_in_the_middle_of_a_check(
    unguarded: None, judge: Judge, candidate: Write, find: Callable[[], list[psutil.Process]]
) -> None:
    killer = threading.Thread(target=_when_there, args=(find,))
    slow_once = "static bool first = true; if (first) usleep(1000000); first = false;"
    folder = candidate(kernel(before=slow_once, includes="unistd.h"))
    killer.start()
    verdict = judge.check(folder)
    killer.join()
    assert verdict.correct, verdict.reason


def test_killing_the_parent_ends_everything_it_started(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import write_task
folder = Path(sys.argv[1])
judge = Judge(write_task(folder), isolation=best_isolation(), cache=folder, scratch=folder, limits=LIMITS)
judge.open()
print("open", flush=True)
time.sleep(1000)
"""
    root = Path(__file__).resolve().parents[3]
    parent = subprocess.Popen([sys.executable, "-c", script, tmp_path], cwd=root, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "open\n"
    ours = psutil.Process(parent.pid).children(recursive=True)
    assert len(ours) >= 2
    parent.kill()
    parent.wait()
    _, left = psutil.wait_procs(ours, timeout=60)
    assert not left


def test_what_is_left_in_the_temporary_folder_goes_with_the_judge(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    leaving = REFERENCE + "\nimport tempfile\ntempfile.mkstemp(prefix='left-')\n"
    spec = write_task(tmp_path, leaving)
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=tmp_path / "scratch", limits=LIMITS):
        left = [path for path in temporary.rglob("left-*") if path.is_file()]
        assert len(left) == 2, "bench and zygote import the module"
    assert not list(temporary.iterdir())
