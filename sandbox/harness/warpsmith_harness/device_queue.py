"""The queue for a device: who may work on it, in the order of coming, among all judges of a machine.

A ticket is a file ``DEVICE.NUMBER.MODE`` in a folder that every user may write to. Its owner made it new, keeps it
locked and touches it every second, so the kernel tells who is alive, and whoever stands still is passed over. Nothing
is ever written to a file of somebody else's, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

SHARED = "shared"
"""Works on the device beside others who share it."""
EXCLUSIVE = "exclusive"
"""Has the device alone."""
RESIDENT = "resident"
"""Has chosen the device, and keeps nobody waiting."""

BEAT_SECONDS = 1.0
_EXPIRY_SECONDS = 30.0
_OBSERVED_SECONDS = 10.0
_FOLDER_SECONDS = 5.0
_POLL_SECONDS = 0.005
_MOST_BYTES = 4096
_LONGEST_TEXT = 80
_NAME = re.compile(r"(?P<device>[\w-]+)\.(?P<number>\d{12})\.(?P<mode>shared|exclusive|resident)")


class QueueStuck(Exception):
    """Somebody keeps the queue's folder locked."""


@dataclass(frozen=True)
class Entry:
    """A living ticket, as others see it. ``touched`` is when its owner last touched it, in nanoseconds."""

    name: str
    number: int
    mode: str
    touched: int


@dataclass(frozen=True)
class Owner:
    """What a ticket says of its owner: process, user, what is worked on, and for how many seconds.

    ``yields``: nobody has asked for that work yet, and it gives way to whoever waits for it.
    """

    pid: int
    user: str
    work: str
    seconds: float
    yields: bool = False


class DeviceQueue:
    """The tickets for one device.

    Args:
        folder: Of all tickets; made where it is missing, for every user.
        device: Its name, the same in every process.
        expiry: Seconds after which a ticket is passed over that nobody touches, the last ``observed`` of them under the
            eyes of whoever passes it over: a machine that slept makes all tickets look old.

    Raises:
        OSError: The folder cannot be made or used.
    """

    def __init__(
        self, folder: Path, device: str, expiry: float = _EXPIRY_SECONDS, observed: float = _OBSERVED_SECONDS
    ) -> None:
        self.device = re.sub(r"[^\w-]", "_", device)
        self.expiry = expiry
        self.observed = observed
        self._folder = _open_folder(folder)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)

    def enter(self, mode: str, work: str, *, yields: bool = False) -> Ticket:
        """Take the next ticket; ``work`` says for what, to whoever has to wait for it."""
        with self._alone():
            return self._enter(self.device, mode, work, yields=yields)

    def settle(self, devices: Sequence[Tuple[str, int]], work: str) -> Tuple[int, Ticket]:
        """Choose the device, of names with how busy each is, that fewest have chosen; return its place and a ticket."""
        with self._alone():
            chosen = [len(self._living(device)) for device, _ in devices]
            best = min(range(len(devices)), key=lambda index: (chosen[index], devices[index][1]))
            return best, self._enter(devices[best][0], RESIDENT, work)

    def entries(self) -> List[Entry]:
        """Return the living tickets in order; those of the dead are removed as far as this user may."""
        with self._alone():
            return self._living(self.device)

    def owner(self, entry: Entry) -> Optional[Owner]:
        """Return what a ticket says of its owner, or None where it says nothing that can be read."""
        try:
            descriptor = self._open(entry.name)
        except OSError:
            return None
        try:
            told = json.loads(os.read(descriptor, _MOST_BYTES))
            seconds = max(0.0, time.time() - float(told["since"]))
            work = _plain(told["work"])
            return Owner(int(told["pid"]), _plain(told["user"]), work, seconds, told.get("yields") is True)
        except (ValueError, KeyError, TypeError, OSError):
            return None
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a ticket, where this user may."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def _enter(self, device: str, mode: str, work: str, *, yields: bool = False) -> Ticket:
        number = max((int(match["number"]) for match in self._tickets(device)), default=0) + 1
        name = f"{device}.{number:012d}.{mode}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o644, dir_fd=self._folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return Ticket(self, Entry(name, number, mode, 0), descriptor, work, yields=yields)

    def _living(self, device: str) -> List[Entry]:
        found = [(match, self._touched(match.group())) for match in self._tickets(device)]
        entries = [Entry(match.group(), int(match["number"]), match["mode"], at) for match, at in found if at]
        return sorted(entries, key=lambda entry: entry.number)

    def _tickets(self, device: str) -> List["re.Match[str]"]:
        matches = [_NAME.fullmatch(name) for name in os.listdir(self._folder)]  # noqa: PTH208  # by descriptor
        return [match for match in matches if match and match["device"] == device]

    def _touched(self, name: str) -> int:
        """Return when a ticket was last touched; 0 if it is nobody's any more."""
        try:
            descriptor = self._open(name)
        except OSError:
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.fstat(descriptor).st_mtime_ns
        else:
            self.remove(name)
            return 0
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        """Open a ticket to read it; anything but a plain file counts as not there."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{name} is not a plain file")
        return descriptor

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder, so that no ticket is seen before it is locked; for microseconds only."""
        deadline = time.monotonic() + _FOLDER_SECONDS
        while not _locked(self._folder):
            if time.monotonic() > deadline:
                raise QueueStuck("another process keeps the folder of the device queue locked")
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._folder, fcntl.LOCK_UN)


class Ticket:
    """A place in the queue, as its owner sees it.

    Attributes:
        passed: Tickets before it that stand still and were passed over.
    """

    def __init__(self, queue: DeviceQueue, entry: Entry, descriptor: int, work: str, *, yields: bool) -> None:
        self._queue = queue
        self._entry = entry
        self._descriptor = descriptor  # -1 once it has left
        self._work = work
        self._yields = yields
        self._seen: Dict[str, Tuple[int, float]] = {}
        self.passed: List[Entry] = []
        self.tell()

    def tell(self) -> None:
        """Write down who owns it, and that its work begins now."""
        told = {
            "pid": os.getpid(),
            "started": _started(),
            "user": user_name(),
            "work": self._work[:_LONGEST_TEXT],
            "since": time.time(),
            "expiry": self._queue.expiry,
            "yields": self._yields,
        }
        body = json.dumps(told).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, body, 0)

    def beat(self) -> None:
        """Show that its owner is not standing still."""
        os.utime(self._descriptor)

    def insist(self) -> None:
        """Give way no longer: somebody has asked for this work by now."""
        if self._yields:
            self._yields = False
            self.tell()

    def wanted(self) -> bool:
        """Tell whether somebody waits behind it whose work was asked for."""
        behind = [e for e in self._queue.entries() if e.number > self._entry.number and e.mode in self._in_its_way()]
        owners = [self._queue.owner(entry) for entry in behind]
        return any(owner is None or not owner.yields for owner in owners)

    def ahead(self) -> List[Entry]:
        """Return the tickets that have to be waited for, and pass over those that stand still; empty: it is its turn."""
        before = [e for e in self._queue.entries() if e.number < self._entry.number and e.mode in self._in_its_way()]
        self.passed = [entry for entry in before if self._stands_still(entry)]
        return [entry for entry in before if entry not in self.passed]

    def moved(self) -> bool:
        """Tell whether an owner of a ticket passed over is going on, or left since the last look."""
        if not self.passed:
            return False
        there = {entry.name: entry.touched for entry in self._queue.entries()}
        moved = any(there.get(entry.name) != entry.touched for entry in self.passed)
        self.passed = [entry for entry in self.passed if entry.name in there]
        return moved

    def close(self) -> None:
        """Leave the queue. A forked child that still has the file keeps nobody waiting."""
        if self._descriptor < 0:
            return
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._queue.remove(self._entry.name)
        os.close(self._descriptor)
        self._descriptor = -1

    def _in_its_way(self) -> Tuple[str, ...]:
        """Return the modes that cannot be on the device beside its own."""
        return (EXCLUSIVE,) if self._entry.mode == SHARED else (SHARED, EXCLUSIVE)

    def _stands_still(self, entry: Entry) -> bool:
        now = time.monotonic()
        touched, since = self._seen.get(entry.name, (0, now))
        if touched != entry.touched:
            self._seen[entry.name] = (entry.touched, now)
            return False
        return time.time() - entry.touched / 1e9 > self._queue.expiry and now - since > self._queue.observed


def device_name(uuid: str, device: str) -> str:
    """Return the name of a device in the queue: its UUID, however that is written, or what the task calls it."""
    bare = uuid.lower()
    for prefix in ("gpu-", "mig-"):
        bare = bare[len(prefix) :] if bare.startswith(prefix) else bare
    return bare or device


def open_queue(folders: Sequence[Path], device: str) -> DeviceQueue:
    """Return the queue in the first of these folders that can be used; raises ``OSError`` of the last one."""
    for folder in folders[:-1]:
        with contextlib.suppress(OSError):
            return DeviceQueue(folder, device)
    return DeviceQueue(folders[-1], device)


def _open_folder(folder: Path) -> int:
    """Open the folder of tickets, where everybody may add some and nobody may remove another's."""
    made = False
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
        made = True
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if made:
            os.fchmod(descriptor, 0o1777)
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor):
            raise PermissionError(errno.EACCES, "cannot be written to", str(folder))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _plain(text: Any) -> str:
    """Return another user's text fit for a terminal."""
    return "".join(letter for letter in str(text)[:_LONGEST_TEXT] if letter.isprintable())


def user_name() -> str:
    """Return the name of the user that this process runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user whom no table knows
        return str(os.getuid())


def _started() -> int:
    """Return when this process began, in clock ticks since the machine did: it tells processes of one id apart."""
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
