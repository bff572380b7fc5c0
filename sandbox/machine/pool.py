"""The machine's devices, shared among all judges: who may work on one, and who has it alone while something is timed.

Whatever runs a reference or a candidate on a device does so under a lease. Loading, verifying and compiling share the
device with other judges that do the same; timing has it alone. A lease is taken for one part of the work and never
while the developer or the model thinks, and whoever came first has it first. It ends with the process that holds it.
Work that nobody has asked for yet gives way to work that was asked for.

A holder that stands still (stopped, frozen) past its lease's expiry is passed over. It learns that when it goes on, and
so does whoever passed it over: both call the samples of that moment disturbed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import EnvironmentFault
from sandbox.progress import Progress, Stage
from sandbox.wire import (
    BEAT_SECONDS,
    EXCLUSIVE,
    SHARED,
    DeviceQueue,
    Owner,
    QueueStuck,
    Ticket,
    open_queue,
    user_name,
)

FOLDERS = (Path("/dev/shm/warpsmith-pool"), Path("/tmp/warpsmith-pool"))  # noqa: S108  # every user has to find it
"""Where tickets are: places of the machine, not of a user or a cache. ``WARPSMITH_POOL`` names another one."""

_POLL_SECONDS = 0.05
_LOST_SECONDS = 8.0
"""Less than a ticket is observed before it is passed over: whoever was passed over knows."""


def pool_folders() -> tuple[Path, ...]:
    """Return where tickets may be, the place to use first."""
    named = os.environ.get("WARPSMITH_POOL")
    return (Path(named),) if named else FOLDERS


class Lease:
    """The right to work on a device, held by this process."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._ended = threading.Event()
        self._beaten = time.monotonic()
        self._stood_still = 0.0
        self._heart = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._heart.start()

    def trouble(self) -> str:
        """Return why somebody else may have worked on the device meanwhile, or an empty string."""
        stood_still = max(self._stood_still, time.monotonic() - self._beaten)
        if stood_still > _LOST_SECONDS:
            return f"this process stood still for {stood_still:.0f} s, and another may have taken the device"
        if self._ticket.moved():
            return "a process that had stood still, and whose lease of the device had run out, went on"
        return ""

    def end(self) -> None:
        """Give the device back."""
        self._ended.set()
        self._heart.join()
        self._ticket.close()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            now = time.monotonic()
            self._stood_still = max(self._stood_still, now - self._beaten)
            self._beaten = now
            self._ticket.beat()


class Pool:
    """One judge's way to its device.

    Args:
        device: The device's name, see ``device_name``.
        task: What the judge judges; others are told while they wait.
        check: Called while waiting; raises to give up.

    Attributes:
        waited: Seconds waited for the device so far: nobody's fault, and in nobody's limit.
        asked: Of work that nobody has asked for yet, what is set as soon as somebody does; null for all other work.
    """

    def __init__(self, device: str, task: str, check: Callable[[], None]) -> None:
        self.device = device
        self._task = task
        self._check = check
        self._lease: Lease | None = None
        self._mode = ""
        self._ticket: Ticket | None = None
        self.waited = 0.0
        self.asked: threading.Event | None = None

    @contextmanager
    def shared(self, part: str, doing: str, progress: Progress) -> Iterator[Lease]:
        """Work on the device beside others who share it; ``part`` and ``doing`` say what, as in ``verifying``."""
        with self._hold(SHARED, part, doing, progress) as lease:
            yield lease

    @contextmanager
    def exclusive(self, part: str, doing: str, progress: Progress) -> Iterator[Lease]:
        """Have the device alone."""
        with self._hold(EXCLUSIVE, part, doing, progress) as lease:
            yield lease

    def wanted(self) -> bool:
        """Tell whether this work has to give way: nobody has asked for it yet, and somebody waits behind it."""
        if self._ticket is None or self.asked is None:
            return False
        if self.asked.is_set():
            self._ticket.insist()
            return False
        return self._ticket.wanted()

    @contextmanager
    def _hold(self, mode: str, part: str, doing: str, progress: Progress) -> Iterator[Lease]:
        if self._lease is not None:
            if self._mode == SHARED and mode == EXCLUSIVE:
                raise RuntimeError("whoever shares a device cannot have it alone")
            yield self._lease
            return
        queue = find_queue(self.device)
        try:
            lease = self._wait(queue, mode, part, doing, progress)
            self._lease, self._mode = lease, mode
            try:
                yield lease
            finally:
                self._lease = self._ticket = None
                lease.end()
        except QueueStuck as stuck:
            raise EnvironmentFault(
                f"The queue for the device does not move: {stuck}.",
                where=", ".join(map(str, pool_folders())),
                next_step="End that process (lsof shows it), or name another folder with WARPSMITH_POOL.",
            ) from stuck
        finally:
            queue.close()

    def _wait(self, queue: DeviceQueue, mode: str, part: str, doing: str, progress: Progress) -> Lease:
        work = f"{doing} {self._task}"
        ticket = self._ticket = self._enter(queue, mode, work)
        started = looked = time.monotonic()
        told = ""
        try:
            while ahead := ticket.ahead():
                if ahead[0].name != told:
                    told = ahead[0].name
                    owner = queue.owner(ahead[0])
                    progress(Stage(part, waiting_text(owner, len(ahead) - 1), {"waiting_for": owner and owner.pid}))
                self._check()
                time.sleep(_POLL_SECONDS)
                ticket.beat()
                if time.monotonic() - looked > _LOST_SECONDS:  # it stood still, and others may have passed it over
                    ticket.close()
                    ticket = self._ticket = self._enter(queue, mode, work)
                looked = time.monotonic()
            ticket.tell()
            if told:
                progress(Stage(part, work))
        except BaseException:
            self._ticket = None
            ticket.close()
            raise
        self.waited += time.monotonic() - started if told else 0.0
        return Lease(ticket)

    def _enter(self, queue: DeviceQueue, mode: str, work: str) -> Ticket:
        return queue.enter(mode, work, yields=self.asked is not None and not self.asked.is_set())


def waiting_text(owner: Owner | None, more: int) -> str:
    """Say who is waited for: ``waiting for pid 1234 (timing blocks:Norm, 12 s) and 2 more``."""
    others = f" and {more} more" if more else ""
    if owner is None:
        return f"waiting for another check to leave the device{others}"
    whose = "" if owner.user == user_name() else f" of {owner.user}"
    return f"waiting for pid {owner.pid}{whose} ({owner.work}, {owner.seconds:.0f} s){others}"


def find_queue(device: str) -> DeviceQueue:
    """Return the machine's queue for a device.

    Raises:
        EnvironmentFault: No folder can be used by which judges see each other.
    """
    try:
        return open_queue(pool_folders(), device)
    except OSError as error:
        raise EnvironmentFault(
            f"There is no place where judges of this machine see each other: {error.strerror or error}.",
            where=", ".join(map(str, pool_folders())),
            next_step="Make one of these folders writable, or name another with WARPSMITH_POOL.",
        ) from error
