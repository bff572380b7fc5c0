"""The parent's side of the zygote: starts workers, makes them ready, and tells how they ended."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.house import House
from sandbox.processes import BoundedLog, Cancelled, Correspondent, ProcessLost, pid_outside, start_harness
from sandbox.task import TaskSpec
from sandbox.wire import Channel, ChannelClosed, ChannelTimeout, Message, pair
from sandbox.workers import SLICE_SECONDS, Worker, stop_all

_KILL_SECONDS = 8.0
_ANSWER_BYTES = 8 * 1024 * 1024
_NUMBERS = itertools.count(1)  # the bench tells workers apart by their numbers, those of a lost zygote too


class Zygote(Correspondent):
    """A running zygote. It is started anew where it died.

    Args:
        spec: The task.
        environment: The variables of the developer's own environment, with which the task's module is imported.
        worker_environment: The whole environment of a worker.
        check: Called while waiting; raises to give up.
        house: The cell it is started in with all its workers, or None.
    """

    def __init__(
        self,
        spec: TaskSpec,
        environment: Mapping[str, str],
        worker_environment: Mapping[str, str],
        check: Callable[[], None],
        house: House | None,
    ) -> None:
        self._check = check
        options = {"spec": spec.to_json(), "environment": dict(worker_environment)}
        self._housed = house is not None
        start = start_harness if house is None else house.start
        super().__init__(start("zygote", spec.python, options, environment))
        self._ready: Message | None = None
        self._exits: dict[int, int] = {}
        self._pids: dict[int, int] = {}

    def await_ready(self, timeout: float) -> Message:
        """Return what importing the task's module told: ``fresh`` (why workers cannot be forked), ``path``."""
        if self._ready is None:
            self._ready = self._next(timeout)
        return self._ready

    def start_workers(self, cells: Sequence[Mapping[str, Any]], timeout: float) -> list[Worker]:
        """Fork a worker into each cell, beside each other; they are on their way there, see ``Worker.await_ready``."""
        workers: list[Worker] = []
        try:
            workers.extend(self._fork(cell, timeout) for cell in cells)
        except BaseException:
            stop_all(workers)
            raise
        return workers

    def _fork(self, cell: Mapping[str, Any], timeout: float) -> Worker:
        """Fork a worker; it is still on its way into its cell."""
        fresh = bool(self.await_ready(timeout)["fresh"])
        number = next(_NUMBERS)
        ours, theirs = pair()
        log = BoundedLog()
        request = {"op": "fork", "worker": number, "cell": dict(cell), "fresh": fresh}
        try:
            self._process.channel.send(request, [theirs.fileno(), log.writer])
        except ChannelClosed as error:
            ours.close()
            raise self._lost("it is gone") from error
        finally:
            theirs.close()
            log.close_writer()
        try:
            while number not in self._pids:
                self._handle(self._next(timeout))
        except Cancelled:
            self.kill(number)
            raise
        return Worker(self, number, self._pids[number], Channel(ours, _ANSWER_BYTES), log, self._check)

    def exit_status(self, worker: int) -> int | None:
        """Return the wait status of an ended worker, or None while it runs; takes in what the zygote has told."""
        self._process.wake()
        try:
            while worker not in self._exits and self._process.channel.ready(0):
                self._handle(self._next(1.0))
        except ChannelClosed as error:  # it was lost before, and given up then
            raise self._lost("it is gone") from error
        return self._exits.get(worker)

    def kill(self, worker: int) -> None:
        """End a worker with all its descendants, and wait until they are gone."""
        for hard in (False, True):
            if not self.alive:
                return
            try:
                self._process.channel.send({"op": "kill", "worker": worker, "hard": hard})
                deadline = time.monotonic() + _KILL_SECONDS
                while time.monotonic() < deadline:
                    if self.exit_status(worker) is not None:
                        return
                    self._process.channel.ready(SLICE_SECONDS)
                    self._process.wake()
            except (ChannelClosed, ProcessLost):
                return

    def stop(self) -> None:
        """End it; its workers end with it. While it still imports it has none, and would not listen."""
        self._process.stop(grace=_KILL_SECONDS if self._ready else 0.0)

    def _handle(self, message: Message) -> None:
        if message["op"] == "exited":
            self._exits[message["worker"]] = message["status"]
        elif message["op"] == "forked":
            self._pids[message["worker"]] = self._pid_here(message["pid"])

    def _pid_here(self, told: int) -> int:
        """Return a worker's process id, which in a house is another one than outside."""
        pid = pid_outside(self.pid, told) if self._housed else told
        if pid is None:
            raise ProcessLost("A worker ended before it was seen.")
        return pid

    def _next(self, timeout: float) -> Message:
        deadline = time.monotonic() + timeout
        try:
            while not self._process.channel.ready(SLICE_SECONDS):
                self._check()
                self._process.wake()
                if time.monotonic() > deadline:
                    raise self._lost(f"it gave no answer within {timeout:.0f} s")
            return self._process.channel.receive(timeout)
        except (ChannelClosed, ChannelTimeout) as error:
            raise self._lost("") from error

    def _lost(self, why: str) -> ProcessLost:
        self.stop()
        why = why or f"it ended with status {self._process.process.returncode}"
        log = self._process.log.text(0.5).strip()[-2000:]
        return ProcessLost(f"The process that starts workers was lost: {why}. {log}".strip())
