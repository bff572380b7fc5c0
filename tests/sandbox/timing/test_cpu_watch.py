"""The watch on the CPU, against processes that really fight for one processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from sandbox.timing.cpu_watch import CpuWatch

SPIN = "import os; os.sched_setaffinity(0, {%d}); os.write(1, b'.')\nwhile True: pass"
RESTS = "import os, time; os.write(1, b'.'); time.sleep(60)"


@contextmanager
def spinning(count: int) -> Iterator[list[int]]:
    """Run so many endless loops on one processor."""
    processor = min(os.sched_getaffinity(0))
    command = [sys.executable, "-S", "-c", SPIN % processor]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for loop in loops:
            assert loop.stdout is not None
            assert loop.stdout.read(1) == b"."
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()


def test_a_process_that_shares_its_processor_is_disturbed() -> None:
    with spinning(3) as loops:
        watch = CpuWatch()
        watch.trouble({loops[0]})
        time.sleep(0.5)
        assert "kept the CPU busy" in watch.trouble({loops[0]})


def test_a_process_that_rests_is_not() -> None:
    resting = subprocess.Popen([sys.executable, "-S", "-c", RESTS], stdout=subprocess.PIPE)
    try:
        assert resting.stdout is not None
        assert resting.stdout.read(1) == b"."
        while psutil.Process(resting.pid).status() != psutil.STATUS_SLEEPING:
            time.sleep(0.01)
        watch = CpuWatch()
        watch.trouble({resting.pid})
        time.sleep(0.2)
        assert watch.trouble({resting.pid}) == ""
    finally:
        resting.kill()
        resting.communicate()


def test_a_process_that_has_ended_is_passed_over() -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    assert CpuWatch().trouble({ended.pid}) == ""
