"""What a storm may have left behind: processes, memory of the GPU, files, control groups, containers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from sandbox.errors import EnvironmentFault
from sandbox.machine.devices import nvml

MARK = "TORCH_STORM_MARK"
"""A variable of the environment that every process of the judge's inherits, for it begins as torch's own do."""
_PR_SET_CHILD_SUBREAPER = 36
_SETTLE_SECONDS = 15.0
_ENOUGH_BYTES = 64 << 20
"""Memory that a driver may take or give back for reasons of its own."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends: then none can hide."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Before:
    """How the machine was before the storm, and who was seen since.

    Args:
        mark: The mark of this storm's processes and files.
        folders: Those that have to be empty in the end.
        device: ``cpu`` or ``cuda:N``.
    """

    def __init__(self, mark: str, folders: list[Path], device: str) -> None:
        self._mark = mark
        self._folders = folders
        self._device = device
        self._memory = _device_memory(device)
        self._containers = _containers()
        self._groups = set(_groups())
        self._seen: set[int] = set()
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, name="leaks", daemon=True)
        self._watch.start()

    def left(self) -> list[str]:
        """Return a line for everything that is still there; what goes by itself within seconds is none."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (found := self._found()) and time.monotonic() < deadline:
            time.sleep(0.25)
        self._ended.set()
        self._watch.join()
        return found

    def _found(self) -> list[str]:
        _reap()
        return [*self._processes(), *self._files(), *self._control_groups(), *self._others()]

    def _processes(self) -> Iterator[str]:
        below = {process.pid for process in psutil.Process().children(recursive=True)}
        for process in psutil.process_iter():
            if process.pid == os.getpid():
                continue
            with contextlib.suppress(psutil.Error):
                if process.pid in below or process.environ().get(MARK) == self._mark:
                    yield f"process {process.pid}: {process.status()} {' '.join(process.cmdline())[:90]}"

    def _files(self) -> Iterator[str]:
        for folder in self._folders:
            yield from (f"file {path}" for path in folder.glob("*"))
        for folder in (Path("/tmp"), Path("/dev/shm"), Path.home()):
            found = folder.glob(f"*{self._mark}*")
            yield from (f"file {path}" for path in found if not any(path in own.parents for own in self._folders))

    def _control_groups(self) -> Iterator[str]:
        for name, folder in _groups():
            number = int(name.rpartition("-")[2])
            if (name, folder) not in self._groups and number in self._seen and not psutil.pid_exists(number):
                yield f"control group {folder}/{name}"

    def _others(self) -> Iterator[str]:
        grown = _device_memory(self._device) - self._memory
        if grown > _ENOUGH_BYTES:
            yield f"memory of the GPU: {grown >> 20} MiB"
        yield from (f"container {name}" for name in _containers() - self._containers)

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            with contextlib.suppress(psutil.Error):
                self._seen |= {process.pid for process in psutil.Process().children(recursive=True)}


def _reap() -> None:
    """Take note of orphans that have ended; the judge's own children are reaped by whoever started them."""
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error, ChildProcessError):
            if process.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(process.pid, os.WNOHANG)


def _groups() -> list[tuple[str, str]]:
    from warpsmith_harness.control_group import _parents  # there once the judge was imported

    found = []
    for _, parent in _parents():
        with contextlib.suppress(OSError):
            names = [path.name for path in Path(parent).iterdir()]
            found += [(name, parent) for name in names if name.startswith("warpsmith-") and name[10:].isdigit()]
    return found


def _device_memory(device: str) -> int:
    if device == "cpu":
        return 0
    api = nvml()
    handle = api.nvmlDeviceGetHandleByIndex(int(device.partition(":")[2] or 0))
    return int(api.nvmlDeviceGetMemoryInfo(handle).used)


def _containers() -> set[str]:
    """Return the containers of the engine, if there is one."""
    import docker

    try:
        client = docker.from_env(timeout=5)
        return {str(container.name) for container in client.containers.list(all=True)}
    except (docker.errors.DockerException, EnvironmentFault):
        return set()
