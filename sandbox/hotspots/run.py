"""Runs the developer's command for a while with its processes recorded, then ends it politely."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox.errors import EnvironmentFault, ToldToEnd
from sandbox.hotspots.command import Command, environment_of
from sandbox.hotspots.folder import STOP
from sandbox.hotspots.others import OthersWatch
from sandbox.hotspots.recording import Recording, read_recording
from sandbox.processes import descendants, kill_all

_LOOK_SECONDS = 0.25
_TELL_SECONDS = 10.0
_WARM_UP_SECONDS = 120.0
_FINISH_SECONDS = 15.0
_GRACE_SECONDS = {signal.SIGINT: 10.0, signal.SIGTERM: 5.0}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """How long a run is watched.

    Attributes:
        seconds: From the end of its warm-up on.
        steps: How many steps are enough; 0 for any number.
        capture_bytes: What the inputs that are kept for captures may come to; 0 captures nothing.
        capture_weights: Whether captures copy the state of modules whatever its size; otherwise much of it is described.
    """

    seconds: float = 60.0
    steps: int = 0
    capture_bytes: int = 0
    capture_weights: bool = False


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        status: The command's exit status where it ended by itself; None where it was ended.
        seconds: From its start to its end.
        others: How many processors other programs kept busy while it was watched; 0 where that does not matter.
    """

    status: int | None
    seconds: float
    others: float = 0.0


def watch(command: Command, folder: Path, limits: Limits, say: Say) -> RunEnd:
    """Run a command until it ends, was watched for long enough or is interrupted; what it prints goes to stderr.

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
            env=environment_of(command, folder, limits.capture_bytes, limits.capture_weights),
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentFault(f"The command does not start: {error.strerror}.", where=command.text) from error
    others = OthersWatch()
    try:
        ended = _watched(process, folder, limits, say, others)
        busy = others.processors()
        if not ended:
            _let_finish(process, folder)
        return RunEnd(process.returncode if ended else None, time.monotonic() - started, busy)
    finally:
        _end(process)


def _watched(process: subprocess.Popen[bytes], folder: Path, limits: Limits, say: Say, others: OthersWatch) -> bool:
    """Follow the command; a first Ctrl-C means that the developer has seen enough, if there is anything to rank by then."""
    try:
        return _follow(process, folder, limits, say, others)
    except ToldToEnd:
        raise
    except KeyboardInterrupt:
        if not any(each.windows for each in read_recording(folder).processes):
            raise
        say("interrupted; what was recorded is ranked (once more: leave it)")
        return False


def _follow(process: subprocess.Popen[bytes], folder: Path, limits: Limits, say: Say, others: OthersWatch) -> bool:
    """Wait until the command has ended (True), or was watched for long enough (False)."""
    called: float | None = None
    warm: float | None = None
    told = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        recording = read_recording(folder)
        if called is None and recording.processes:
            called = told = now
            say("the first module was called")
        if called is not None and warm is None and (_is_warm(recording) or now - called > _WARM_UP_SECONDS):
            warm = told = now
            say("it is warm; recording")
        if warm is not None and (now - warm >= limits.seconds or 0 < limits.steps <= recording.steps):
            return False
        if now - told > _TELL_SECONDS:
            told = now
            others.look()
            say(_progress(now, called, warm, recording))
        time.sleep(_LOOK_SECONDS)
    return True


def _is_warm(recording: Recording) -> bool:
    return any(process.windows for process in recording.processes)


def _progress(now: float, called: float | None, warm: float | None, recording: Recording) -> str:
    if warm is not None:
        return f"{now - warm:.0f} s, {recording.steps} steps"
    return "no module was called yet" if called is None else f"its first steps take {now - called:.0f} s so far"


def _let_finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Ask the recorders to finish and wait until each has, or has had the time for it."""
    (folder / STOP).touch()
    end = time.monotonic() + _FINISH_SECONDS
    while process.poll() is None and time.monotonic() < end:
        if all(each.complete for each in read_recording(folder).processes):
            return
        time.sleep(_LOOK_SECONDS)


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
