"""Runs the developer's command for a while with its processes recorded, then ends it politely."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox.errors import EnvironmentFault
from sandbox.hotspots.command import Command, environment_of
from sandbox.hotspots.recording import read_recording
from sandbox.processes import descendants, kill_all

_LOOK_SECONDS = 0.2
_TELL_SECONDS = 10.0
_GRACE_SECONDS = {signal.SIGINT: 10.0, signal.SIGTERM: 5.0}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """How long a run is watched: seconds from the first module call on, steps (0: any number)."""

    seconds: float = 60.0
    steps: int = 0


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        status: The command's exit status where it ended by itself; None where it was ended.
        seconds: From its start to its end.
    """

    status: int | None
    seconds: float


def watch(command: Command, folder: Path, limits: Limits, say: Say) -> RunEnd:
    """Run a command until it ends or was watched for long enough; what it prints goes to stderr.

    Args:
        command: What is run, in the current folder.
        folder: Where its processes write what they record.
        limits: How long it is watched.
        say: Narrates.

    Raises:
        EnvironmentFault: It cannot be started.
    """
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=environment_of(command, folder),
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentFault(f"The command does not start: {error.strerror}.", where=command.text) from error
    try:
        ended = _follow(process, folder, limits, say)
        return RunEnd(process.returncode if ended else None, time.monotonic() - started)
    finally:
        _end(process)


def _follow(process: subprocess.Popen[bytes], folder: Path, limits: Limits, say: Say) -> bool:
    """Wait until the command has ended (True), or was watched for long enough (False)."""
    first: float | None = None
    told = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if first is None and any(folder.glob("process-*.json")):
            first = told = now
            say("the first modules were called")
        if first is not None and now - first >= limits.seconds:
            return False
        steps = (
            read_recording(folder).steps if first is not None and (limits.steps or now - told > _TELL_SECONDS) else 0
        )
        if limits.steps and steps >= limits.steps:
            return False
        if now - told > _TELL_SECONDS:
            told = now
            say("no module was called yet" if first is None else f"{now - first:.0f} s, {steps} steps")
        time.sleep(_LOOK_SECONDS)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's processes: ask as Ctrl-C does, then as the system does, then make them."""
    family = descendants(process.pid)
    for number, grace in _GRACE_SECONDS.items():
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            family += descendants(process.pid)
    if process.poll() is None:
        process.kill()
        process.wait()
    psutil.wait_procs(family, timeout=1.0)
    kill_all([each for each in family if each.is_running()])
