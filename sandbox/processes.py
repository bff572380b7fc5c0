"""Starts, watches and ends the judge's processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sandbox.errors import EnvironmentFault
from sandbox.isolation import CellProcess, wrapped
from sandbox.wire import MAIN, Channel, pair

LOG_BYTES = 64 * 1024


class Cancelled(Exception):
    """Whoever asked for the verdict no longer wants it."""


class ProcessLost(Exception):
    """A trusted process ended or stopped answering; another takes its place.

    Attributes:
        what: What happened, in a sentence.
        killed: Whether somebody killed it: then what it was doing is not to blame.
        status: The exit status with which it ended by itself; null where it did not, or where it raised.
    """

    def __init__(self, what: str, *, log: str = "", killed: bool = False, status: int | None = None) -> None:
        super().__init__(f"{what}: {log}" if log else what)
        self.what = what
        self.killed = killed
        self.status = status


class BoundedLog:
    """Drains a pipe for as long as anyone writes, and keeps its beginning and its end.

    A process that prints a gigabyte neither blocks nor fills a disk. ``writer`` is the end to hand to that process.
    """

    def __init__(self, limit: int = LOG_BYTES) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        self._reader, self.writer = os.pipe()
        self._thread = threading.Thread(target=self._drain, name="judge-log", daemon=True)
        self._thread.start()

    def close_writer(self) -> None:
        """Close this process's copy of the writing end, so that the log ends with its writers."""
        os.close(self.writer)

    def text(self, settle: float = 0.0) -> str:
        """Return what is kept; waits up to ``settle`` seconds for the writers to be gone."""
        self._thread.join(settle)
        dropped = self.total - len(self._head) - len(self._tail)
        middle = f"\n... {dropped} bytes left out ...\n".encode() if dropped else b""
        return bytes(self._head + middle + self._tail).decode(errors="replace")

    def _drain(self) -> None:
        with os.fdopen(self._reader, "rb", buffering=0) as pipe:
            while piece := pipe.read(1 << 20):
                self.total += len(piece)
                room = self._limit - len(self._head)
                self._head += piece[:room] if room > 0 else b""
                rest = piece[room:] if room > 0 else piece
                self._tail = (self._tail + rest)[-self._limit :]


@dataclass
class HarnessProcess:
    """One process of the harness: its channel, and what it prints.

    Attributes:
        process: What was started: the process itself, or what keeps the cell that it is in.
        pid: Its own process id.
    """

    role: str
    process: subprocess.Popen[bytes]
    channel: Channel
    log: BoundedLog
    pid: int

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wake(self) -> None:
        """Let it go on where somebody stopped it: it is trusted, and waited for."""
        wake(self.pid)

    def stop(self, grace: float = 1.0) -> None:
        """Close its channel, which ends it; kill it and every descendant where it does not."""
        self.wake()
        family = descendants(self.pid)
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        if self.alive:
            family += descendants(self.pid)
            if isinstance(self.process, CellProcess):
                wrapped.kill(self.process)
            else:
                self.process.kill()
                self.process.wait()
        kill_all(family)


class Correspondent:
    """Base of those that speak for one process of the harness."""

    def __init__(self, process: HarnessProcess) -> None:
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.alive

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid


def start_harness(
    role: str, python: Path, options: Mapping[str, Any], environment: Mapping[str, str]
) -> HarnessProcess:
    """Start ``bench`` or ``zygote`` in the developer's interpreter, in a session of its own.

    Raises:
        EnvironmentFault: The interpreter cannot be started.
    """
    ours, theirs = pair()
    log = BoundedLog()
    arguments = [str(python), str(MAIN), role, json.dumps({**options, "channel": theirs.fileno()})]
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log.writer,
            stderr=log.writer,
            env=dict(environment),
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise EnvironmentFault(
            f"The interpreter does not start: {error.strerror}.",
            where=str(python),
            next_step="Name the project's interpreter with --python.",
        ) from error
    finally:
        theirs.close()
        log.close_writer()
    return HarnessProcess(role, process, Channel(ours), log, process.pid)


def descendants(pid: int) -> list[psutil.Process]:
    """Return every descendant of a process; empty when it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_all(processes: list[psutil.Process]) -> None:
    """Kill these processes and wait until they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


def family(pid: int) -> list[int]:
    """Return every descendant's id, read straight from the kernel: this happens between two timed batches."""
    found = _children(pid)
    for child in found:
        found += _children(child)
    return found


def pid_outside(parent: int, inside: int) -> int | None:
    """Return the id that a child has here, by the one that its parent knows it by in a PID namespace of its own."""
    for child in _children(parent):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{child}/status").read_text().splitlines():
                if line.startswith("NSpid:") and int(line.split()[-1]) == inside:
                    return child
    return None


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to whoever of these is still there."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def is_stopped(pid: int) -> bool:
    """Tell whether a process stands still because a signal stopped it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
    return False


def wake(pid: int) -> None:
    """Let a process go on that a signal stopped."""
    if is_stopped(pid):
        send_signal([pid], signal.SIGCONT)


def close_all(descriptors: Iterable[int]) -> None:
    """Close descriptors that are no longer needed."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _children(pid: int) -> list[int]:
    """Return the children of all of a process's threads; a thread that has just ended has none."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # asked often, and four times as fast as by paths
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file,  # noqa: PTH123
            ):
                found += [int(child) for child in file.read().split()]
    return found
