"""The parent's side of the bench, the trusted process that keeps the reference."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import EnvironmentFault, TaskError, machine_fault
from sandbox.processes import Correspondent, ProcessLost, close_all, start_harness
from sandbox.task import TaskSpec
from sandbox.wire import ChannelClosed, ChannelTimeout, Message

SLICE_SECONDS = 0.05


class Bench(Correspondent):
    """A running bench. Every call may raise ``ProcessLost``, ``TaskError`` or ``EnvironmentFault``.

    Args:
        spec: The task.
        environment: The variables of the developer's own environment.
        check: Called while waiting; raises to give up (the developer interrupted).
        pool: Where the machine's judges queue for devices.
        memory: Bytes to take the device's memory for; 0 for all of it.
    """

    def __init__(
        self,
        spec: TaskSpec,
        environment: Mapping[str, str],
        check: Callable[[], None],
        pool: Sequence[Path],
        memory: int,
    ) -> None:
        self._spec = spec
        self._check = check
        self._numbers = itertools.count(1)
        self._form: Message | None = None
        options = {"spec": spec.to_json(), "pool": [str(folder) for folder in pool], "memory": memory}
        super().__init__(start_harness("bench", spec.python, options, environment))

    def open(self, timeout: float) -> Message:
        """Wait until the task is loaded and accepted; return what was found out about it and about the machine.

        Raises:
            TaskError: The task cannot be used, or its code ended the process.
            EnvironmentFault: This machine or this interpreter cannot judge.
            ProcessLost: The process was killed, or gave no answer in time.
        """
        try:
            return self._receive(0, timeout)[0]
        except ProcessLost as lost:
            if lost.status is None:
                raise
            raise TaskError(
                f"The module's own code ended the process with status {lost.status} while it was loaded and tried.",
                where=str(self._spec.path),
                next_step="Take the call that ends it (such as os._exit) out of what importing, building or calling it runs.",
            ) from lost

    def ask(self, request: Message, timeout: float) -> tuple[Message, list[int]]:
        """Send one request and return the answer, with the descriptors sent beside it, which the caller owns."""
        number = next(self._numbers)
        self._send({**request, "id": number, "form": self._form})
        return self._receive(number, timeout)

    @contextmanager
    def form(self, spec: TaskSpec) -> Iterator[None]:
        """Ask of another form of the task's class, for a while."""
        self._form = spec.to_json()
        try:
            yield
        finally:
            self._form = None

    def rest(self, compile_seconds: float) -> None:
        """Let it prepare what the next verdict needs, until it is asked something; compiling may take so long."""
        self._send({"op": "rest", "compile_seconds": compile_seconds})

    def stop(self) -> None:
        """End it with everything it started."""
        self._process.stop()

    def _send(self, request: Message) -> None:
        try:
            self._process.channel.send(request)
        except ChannelClosed as error:
            raise self._died("") from error

    def _receive(self, number: int, timeout: float) -> tuple[Message, list[int]]:
        """Return the answer to a request; answers to requests that were given up are passed over."""
        deadline = time.monotonic() + timeout
        while True:
            answer, descriptors = self._next(deadline, timeout)
            if answer.get("id", 0) == number:
                self._raise_problem(answer)
                return answer, descriptors
            close_all(descriptors)

    def _next(self, deadline: float, timeout: float) -> tuple[Message, list[int]]:
        try:
            while not self._process.channel.ready(SLICE_SECONDS):
                self._check()
                self._process.wake()
                if time.monotonic() > deadline:
                    raise self._died(f"it gave no answer within {timeout:.0f} s")
            return self._process.channel.receive_with_descriptors(max(5.0, deadline - time.monotonic()))
        except (ChannelClosed, ChannelTimeout) as error:
            raise self._died("") from error

    def _raise_problem(self, answer: Message) -> None:
        if "environment_problem" in answer:
            raise EnvironmentFault(
                f"The interpreter cannot judge: {answer['environment_problem']}.",
                where=str(self._spec.python),
                next_step="Name the project's own interpreter with --python, or install torch there.",
            )
        if "machine_problem" in answer:
            number, where = answer["machine_problem"]
            fault = machine_fault(OSError(number, os.strerror(number), where or f"judging {self._spec.id}"))
            raise fault or EnvironmentFault(f"{os.strerror(number)}.", where=where)
        if "task_problem" in answer:
            what, where, next_step = answer["task_problem"]
            raise TaskError(what, where=where, next_step=next_step)
        if "CUDA error" in answer.get("fault", ""):
            self.stop()
            raise ProcessLost(f"The bench process lost its device: {answer['fault']}")
        if "fault" in answer:
            raise EnvironmentFault(
                f"The bench process failed: {answer['fault']}.",
                where=str(self._spec.path),
                next_step="Its traceback: " + answer["traceback"],
            )

    def _died(self, why: str) -> ProcessLost:
        self.stop()
        status = self._process.process.returncode
        log = self._process.log.text(0.5).strip()[-2000:]
        what = f"The bench process was lost: {why or f'it ended with status {status}'}"
        by_itself = not why and status is not None and status >= 0 and "Traceback" not in log
        killed = status == -signal.SIGKILL and not why
        return ProcessLost(what, log=log, killed=killed, status=status if by_itself else None)
