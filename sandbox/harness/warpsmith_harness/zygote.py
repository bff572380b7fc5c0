"""Forks workers: a process that has imported torch and the task's module, has one thread and has touched no device.

A parent that ran one parallel tensor operation makes every child hang in OpenMP, and one that touched CUDA makes it
unusable there, so this process runs no tensor operation. Where importing the task's module starts threads or touches
CUDA, workers are started afresh by ``exec`` instead: slower, and said so.
"""

# Paths are strings here, so that looking at descriptors stays quick.
# ruff: noqa: PTH108, PTH116, PTH123, PTH208

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import select
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from warpsmith_harness import linux, startup
from warpsmith_harness.isolate import REFUSED, IsolationRefused
from warpsmith_harness.protocol import Channel, ChannelClosed, Message

_CUDA_NOT_INITIALISED = 3


class Zygote:
    """Serves ``fork`` and ``kill`` requests, and tells when a worker has ended.

    Args:
        channel: To the parent.
        options: ``spec``; ``environment``, the variables a worker gets; and in a cell ``own``, its folders that nobody else has:
            what workers leave there is gone when the last of them has ended.
    """

    def __init__(self, channel: Channel, options: Dict[str, Any]) -> None:
        self._channel = channel
        self._options = options
        self._task: Any = None
        self._workers: Dict[int, int] = {}

    def prepare(self) -> Dict[str, Any]:
        """Import what workers need, and tell whether they can be forked from here (``fresh`` says why not)."""
        reason = self._import_task()
        gc.collect()
        gc.freeze()
        return {"op": "ready", "fresh": reason, "pid": os.getpid(), "path": list(sys.path)}

    def serve(self) -> int:
        """Answer requests until the parent is gone; its workers die with this process."""
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            readable, _, _ = select.select([self._channel.fileno(), wake], [], [])
            if wake in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                self._reap()
            if self._channel.fileno() in readable:
                request, descriptors = self._channel.receive_with_descriptors()
                self._handle(request, descriptors)

    def _handle(self, request: Message, descriptors: List[int]) -> None:
        if request["op"] == "kill":
            self._kill(request["worker"], request["hard"])
            return
        pid = os.fork()
        if pid == 0:
            _become_worker(self._task, self._options, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._workers[pid] = request["worker"]
        self._channel.send({"op": "forked", "worker": request["worker"], "pid": pid})

    def _import_task(self) -> str:
        from warpsmith_harness import worker  # noqa: F401  # imports torch and everything a worker runs
        from warpsmith_harness.load import TaskProblem, load_task

        try:
            self._task = load_task(self._options["spec"])
        except TaskProblem as problem:
            return f"the task's module does not load ({problem.what})"
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            return f"importing the task's module starts threads ({threads - 1})"
        return "importing the task's module touches CUDA" if _cuda_touched() else ""

    def _kill(self, worker: int, hard: bool) -> None:
        """End a worker: its stand-in is asked to take everything with it, or everything is killed where it lingers."""
        for pid, number in self._workers.items():
            if number == worker:
                for member in startup.descendants_of(pid) if hard else ():
                    _end(member)
                _end(pid, signal.SIGKILL if hard else signal.SIGTERM)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._workers.pop(pid, None)
            if worker is not None:
                self._end_strays()
                if not self._workers:
                    _empty(self._options.get("own", []))
                self._channel.send({"op": "exited", "worker": worker, "status": status})

    def _end_strays(self) -> None:
        """Kill what an ended worker left running: as the nearest reaper, this process has become its parent."""
        for child in startup.children_of(os.getpid()):
            if child not in self._workers:
                for member in (child, *startup.descendants_of(child)):
                    _end(member)


def main(arguments: List[str]) -> int:
    """Run the zygote. Options: ``channel`` (descriptor) or ``door`` (path of a socket), ``spec``, ``environment``."""
    options = startup.options(arguments)
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asking whether there is a GPU must not touch it
    startup.adopt_orphans()
    linux.set_dumpable(False)  # where workers have its user, they may not look into it
    channel = Channel.of_path(options["door"]) if "door" in options else Channel.of_descriptor(options["channel"])
    os.set_inheritable(channel.fileno(), False)
    zygote = Zygote(channel, options)
    try:
        channel.send(zygote.prepare())
        return zygote.serve()
    except ChannelClosed:
        return 0


def _become_worker(task: Any, options: Dict[str, Any], request: Message, descriptors: List[int]) -> None:
    """Turn the forked child into a worker; never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        channel, log = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        _close_all_but((0, 1, 2, channel))
        startup.forget_environment()
        os.environ.update(options["environment"])
        worker_options = {"channel": channel, "cell": request["cell"], "spec": options["spec"]}
        if task is None or request["fresh"]:
            os.set_inheritable(channel, True)
            script = str(Path(__file__).resolve().parent.parent / "main.py")
            os.execv(sys.executable, [sys.executable, script, "worker", json.dumps(worker_options)])  # noqa: S606
        from warpsmith_harness import worker

        random.seed()
        code = worker.run(worker_options, task)
    except IsolationRefused:
        code = REFUSED
        traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _end(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _empty(folders: Sequence[str]) -> None:
    """Remove what workers have left in folders; what is mounted there, and the way to it, is not theirs."""
    for folder in folders:
        place = os.stat(folder).st_dev
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if about.st_uid != os.geteuid() or about.st_dev != place:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


def _close_all_but(kept: Sequence[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _cuda_touched() -> bool:
    """Tell whether the CUDA driver was initialised in this process, by torch or behind its back."""
    torch: Optional[Any] = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return True
    with open("/proc/self/maps") as maps:
        if "libcuda.so" not in maps.read():
            return False
    device = ctypes.c_int()
    answer: int = ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(device))
    return answer != _CUDA_NOT_INITIALISED
