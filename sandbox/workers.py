"""The parent's side of a worker, in which a candidate lives."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sandbox.errors import EnvironmentFault
from sandbox.processes import (
    BoundedLog,
    ProcessLost,
    family,
    is_stopped,
    send_signal,
    wake,
)
from sandbox.wire import TAMPERED, Channel, ChannelClosed, ChannelGarbage, ChannelTimeout, Message, signature

SLICE_SECONDS = 0.05
_ENDING_SECONDS = 5.0
"""From a closed channel to the end of the process behind it, and of what it prints: a busy machine takes its time."""
FORGED = "result-channel"
"""The rule that a candidate breaks which answers in the place of its worker."""
_REPLACED = re.compile(r"^replaced by the candidate: (.+)$", re.MULTILINE)
_SLICES_A_LOOK = 10
_STILL_LOOKS = 2
_FREEZES = 8
_LAST_ANSWER_SECONDS = 20.0
_PROBLEM = ("kind", "what", "where", "traceback")
_LONGEST_PROBLEM = 8192


@dataclass(frozen=True)
class Death:
    """How a worker ended without being asked to.

    Attributes:
        what: What it did.
        log: What it printed last.
        killed: Whether somebody killed or stopped it, which may have been anybody.
        rule: The rule of the guard that it broke by that, if any.
    """

    what: str
    log: str
    killed: bool = False
    rule: str = ""


class WorkerDied(Exception):
    """The worker ended, hung or sent what is no answer; the candidate is at fault."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.what)
        self.death = death


class CandidateFailed(Exception):
    """The candidate's code raised. Carries ``what``, ``where`` (file:line), the traceback, and whether it ``refused``."""

    def __init__(self, problem: Mapping[str, str]) -> None:
        super().__init__(problem["what"])
        self.what = problem["what"]
        self.where = problem["where"]
        self.traceback = problem["traceback"]
        self.refused = problem["kind"] == "refusal"


class TransportFailed(Exception):
    """The worker could not open the shared memory; the machine is at fault, and another kind may do."""


class Parent(Protocol):
    """What started a worker, and alone can tell how it ended."""

    def exit_status(self, worker: int) -> int | None:
        """Return the wait status of an ended worker, or None while it runs."""

    def kill(self, worker: int) -> None:
        """End a worker with all its descendants, and wait until they are gone."""


class Worker:
    """A worker serving the candidate. Calls raise ``WorkerDied`` or ``CandidateFailed``."""

    def __init__(
        self, parent: Parent, number: int, pid: int, channel: Channel, log: BoundedLog, check: Callable[[], None]
    ) -> None:
        self._parent = parent
        self._channel = channel
        self._log = log
        self._check = check
        self._serves = False
        self._probe: int | None = None
        self.number = number
        self.pid = pid

    def use_device(self, timeout: float) -> None:
        """Let it use its device for the first time as soon as it serves; ``await_ready`` then waits for that too.

        It is on its way into its cell, and has no candidate.
        """
        self._probe = secrets.randbits(52)
        try:
            self._channel.send({"op": "probe", "id": self._probe}, (), timeout)
        except (ChannelClosed, ChannelTimeout) as error:
            raise ProcessLost(f"A worker reads nothing before it served: {error}") from error

    def await_ready(self, timeout: float) -> None:
        """Wait until the worker is in its cell; where it cannot get there, the machine is at fault."""
        if self._serves:
            return
        self._await_cell(timeout)
        self._serves = True
        if self._probe is None:
            return
        try:
            self.answer(self._probe, timeout)
        except (WorkerDied, CandidateFailed, TransportFailed) as failure:
            raise ProcessLost(f"A worker without a candidate could not use its device: {failure}") from failure

    def _await_cell(self, timeout: float) -> None:
        try:
            self._receive(timeout)
        except WorkerDied as died:
            if died.death.killed:
                raise ProcessLost(f"A worker {died.death.what} before it served") from died
            raise EnvironmentFault(
                f"A worker could not be started: {died.death.what}. {died.death.log[-2000:]}".strip(),
                where="isolation",
                next_step="Run `warpsmith doctor`.",
            ) from died

    def ask(self, request: Message, timeout: float, descriptors: Sequence[int] = ()) -> Message:
        """Send one request and return its answer.

        The candidate lives in the process that answers, and may write to the same channel. So a request has a number
        that nobody can know before, and whatever comes beside its one answer ends the worker.
        """
        return self.answer(self.send(request, timeout, descriptors), timeout)

    def send(self, request: Message, timeout: float, descriptors: Sequence[int] = ()) -> int:
        """Send one request and return its number; ``answer`` waits for what comes of it."""
        number = secrets.randbits(52)
        if self._channel.ready(0):
            self._receive(timeout)
            raise self._ended("answered what it was not asked", FORGED)
        try:
            self._channel.send({**request, "id": number}, descriptors, timeout)
        except ChannelClosed as error:
            raise self._died() from error
        except ChannelTimeout as error:
            raise self._ended(f"did not finish within {timeout:.0f} s: it reads nothing") from error
        return number

    def answer(self, number: int, timeout: float) -> Message:
        """Return the answer to the request of a number."""
        answer = self._receive(timeout)
        if answer.get("id") != number:
            raise self._ended("answered what it was not asked", FORGED)
        if answer.get("signature") != signature(answer, number):
            raise self._ended("sent an answer that was changed on its way", FORGED)
        self._raise_problem(answer)
        return answer

    def finish(self) -> None:
        """Ask a last time, for nothing: an answer too many would come before this one's."""
        self.thaw()
        self.ask({"op": "rest"}, _LAST_ANSWER_SECONDS)

    def family(self) -> list[int]:
        """Return the process ids of everything it runs."""
        return family(self.pid)

    def freeze(self) -> None:
        """Let it and everything it started stand still, so that it cannot disturb what is timed elsewhere."""
        still: set[int] = set()
        for _ in range(_FREEZES):  # what was started while the others were stopped is found in the next look
            running = [pid for pid in self.family() if pid not in still]
            if not running:
                return
            send_signal(running, signal.SIGSTOP)
            still.update(running)

    def thaw(self) -> None:
        """Let it go on."""
        send_signal(self.family(), signal.SIGCONT)

    def stop(self) -> None:
        """End it with everything it started."""
        self.thaw()
        wake(self.pid)
        self._parent.kill(self.number)
        self._channel.close()

    def printed(self) -> str:
        """Return what it has printed, once it was stopped; of very much, the beginning and the end."""
        return self._log.text(_ENDING_SECONDS)

    def _receive(self, timeout: float) -> Message:
        deadline = time.monotonic() + timeout
        still = 0
        for number in itertools.count(1):
            if self._channel.ready(SLICE_SECONDS):
                break
            self._check()
            if self._parent.exit_status(self.number) is not None:
                break
            if number % _SLICES_A_LOOK == 0:
                still = still + 1 if self._stands_still() else 0
            if still >= _STILL_LOOKS:
                raise self._ended("was stopped (SIGSTOP)", killed=True)
            if time.monotonic() > deadline:
                raise self._ended(f"did not finish within {timeout:.0f} s")
        try:
            return self._channel.receive(max(1.0, deadline - time.monotonic()))
        except ChannelClosed as error:
            raise self._died() from error
        except ChannelTimeout as error:
            raise self._ended(f"did not finish within {timeout:.0f} s") from error
        except ChannelGarbage as error:
            raise self._ended(f"wrote {error} to the judge's channel", FORGED) from error

    def _stands_still(self) -> bool:
        """Tell whether the worker or what it started was stopped; the two processes around it are trusted, and woken."""
        members = self.family()
        for pid in (self.pid, *members[:1]):
            wake(pid)
        return any(is_stopped(pid) for pid in members[1:])

    def _ended(self, what: str, rule: str = "", *, killed: bool = False) -> WorkerDied:
        """End it for what it did, and return how it died."""
        self.stop()
        return WorkerDied(Death(what, self._log.text(0.2), killed, rule))

    def _raise_problem(self, answer: Message) -> None:
        if "problem" not in answer:
            return
        told = answer["problem"]
        if not isinstance(told, dict) or not all(isinstance(told.get(key), str) for key in _PROBLEM):
            raise self._ended("sent an answer that makes no sense", FORGED)
        problem = {key: told[key][-_LONGEST_PROBLEM:] for key in _PROBLEM}
        if problem["kind"] == "transport":
            raise TransportFailed(problem["what"])
        raise CandidateFailed(problem)

    def _died(self) -> WorkerDied:
        deadline = time.monotonic() + _ENDING_SECONDS
        while (status := self._parent.exit_status(self.number)) is None and time.monotonic() < deadline:
            self._stands_still()  # wakes whoever has to tell
            time.sleep(0.01)
        if status is None:
            self.stop()
            return WorkerDied(Death("closed its channel to the judge", self._log.text(0.2)))
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        log = self._log.text(_ENDING_SECONDS)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == TAMPERED:
            return WorkerDied(Death(_tampering(log), log, rule="tampering"))
        return WorkerDied(Death(_ending(status), log, killed))


def await_all(workers: Sequence[Worker], timeout: float) -> None:
    """Wait until all of them serve; where one does not, all are ended."""
    try:
        for worker in workers:
            worker.await_ready(timeout)
    except BaseException:
        stop_all(workers)
        raise


def stop_all(workers: Sequence[Worker]) -> None:
    """End workers with everything they started."""
    for worker in workers:
        worker.stop()


def _tampering(log: str) -> str:
    """Say what a candidate replaced in its process, from the last words of its worker."""
    names = [found[1] for found in _REPLACED.finditer(log)][-1:] or ["it is not said what"]
    return f"replaced code of the judge's in its own process ({names[0][:200]})"


def _ending(status: int) -> str:
    """Say how a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return "was killed (SIGKILL), most likely for using too much memory"
        if number == signal.SIGXFSZ:
            return "was ended for writing more to the disk than it may (SIGXFSZ)"
        return f"crashed with {signal.Signals(number).name}"
    return f"ended its process with exit status {os.WEXITSTATUS(status)}"
