"""Processes that are left running are found; those that have ended, and those that were there before, are not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from sandbox.guard.left_running import left_running
from sandbox.processes import family


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_that_goes_on_is_named(sleeper: subprocess.Popen[bytes]) -> None:
    others = set(family(os.getpid())) - {sleeper.pid}
    [found] = left_running(family(os.getpid()), others)
    assert (found.rule, found.severity) == ("process", "reject")
    assert "sleep" in found.evidence
    assert left_running(family(os.getpid()), [*others, sleeper.pid]) == []


def test_one_that_has_ended_and_waits_to_be_asked_is_not(sleeper: subprocess.Popen[bytes]) -> None:
    others = set(family(os.getpid())) - {sleeper.pid}
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert left_running([sleeper.pid], others) == []
