"""The session on disk: ``events.jsonl``, one event a line, and ``blobs/`` by content hash beside it.

There is one writer, guarded by a lock that dies with its process. Every event is handed to the system as it happens, and
those nobody could make again (an answer, an attempt, a decision, a landing) are on the disk before anything follows from
them. A line torn by a crash loses at most itself: readers skip it, and the next writer cuts it off.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import events as ev
from sandbox.errors import EnvironmentFault, UsageError

EVENTS = "events.jsonl"
BLOBS = "blobs"
LOCK = ".lock"

_PRECIOUS = (
    *(ev.SessionStarted, ev.ConversationStarted, ev.ModelTurn, ev.Attempt, ev.RunEnded),
    *(ev.HunkAccepted, ev.HunkRejected, ev.Steered, ev.Landed, ev.Undone),
)


class SessionBusy(UsageError):
    """Another engine holds the session."""


class NewerFormat(UserWarning):
    """A session holds something this version does not know; it was skipped."""


@dataclass(frozen=True)
class StoredEvent:
    """An event with its number, counted from 1, and its Unix time."""

    n: int
    time: float
    event: ev.Event


def read_events(folder: Path) -> Iterator[StoredEvent]:
    """Yield a session's events in order.

    A line that does not parse (the last one, torn by a crash) and a type this version does not know are skipped; the
    latter with a :class:`NewerFormat` warning. A folder without events yields none.
    """
    path = folder / EVENTS
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            stored = _stored(line)
            if stored is not None:
                yield stored


def _stored(line: bytes) -> StoredEvent | None:
    data = _parsed(line)
    if data is None:
        return None
    try:
        event = ev.from_json(data)
    except TypeError:  # a newer version dropped a field that this one needs
        event = None
    if event is None:
        warnings.warn(f"Skipped an event of an unknown kind, '{data['type']}'.", NewerFormat, stacklevel=3)
        return None
    return StoredEvent(data["n"], data.get("time", 0.0), event)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(line.decode())
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return data if isinstance(data, dict) and "n" in data and "type" in data else None


def hashes_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the sha256 that each file's content is stored under, whether or not it is."""
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def read_blob(folder: Path, sha256: str) -> bytes:
    """Return the blob of that hash.

    Raises:
        EnvironmentFault: It is missing or damaged.
    """
    path = folder / BLOBS / sha256
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(
            f"A stored file of the session cannot be read: {error.strerror}.", where=str(path)
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise EnvironmentFault("A stored file of the session is damaged.", where=str(path))
    return data


class SessionWriter:
    """The only writer of a session's events and blobs.

    Args:
        folder: The session's folder, which must exist.

    Raises:
        SessionBusy: Another process writes this session.
        EnvironmentFault: The folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with _disk_faults(folder):
            (folder / BLOBS).mkdir(exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            self._take_lock()
            for place in (folder, folder / BLOBS):
                sweep(place)
            self._file = os.open(folder / EVENTS, os.O_RDWR | os.O_CREAT, 0o600)
            self._end, self._n = self._mend()

    def append(self, event: ev.Event) -> tuple[StoredEvent, bytes]:
        """Store an event and return it with its line, newline included.

        Raises:
            EnvironmentFault: It could not be written whole; then nothing of it is in the file.
        """
        now = time.time()
        line = encode(ev.to_json(event, self._n + 1, now))
        with _disk_faults(self.folder / EVENTS):
            try:
                _write_all(self._file, line, self._end)
                if isinstance(event, _PRECIOUS):
                    os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, self._end)
                raise
        self._end += len(line)
        self._n += 1
        return StoredEvent(self._n, now, event), line

    def blob(self, data: bytes) -> str:
        """Store bytes under their SHA-256 and return it; the file appears whole or not at all."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / BLOBS / sha256
        if not path.exists():
            with _disk_faults(path):
                write_atomically(path, data)
        return sha256

    def close(self) -> None:
        """Give up the session; another writer may open it."""
        os.close(self._file)
        os.close(self._lock)

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 32, 0).decode().strip()
            os.close(self._lock)
            raise SessionBusy(
                f"This session is open in another Warpsmith (process {holder or 'unknown'}).",
                where=str(self.folder),
                next_step="Close it there first.",
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _mend(self) -> tuple[int, int]:
        """Cut off a torn last line; return where to write next and the number of the last event."""
        end = n = start = 0
        with (self.folder / EVENTS).open("rb") as file:
            for line in file:
                start, end = end, end + len(line)
                data = _parsed(line)
                n = data["n"] if data else n
        if end and data is None:
            end = start
            os.ftruncate(self._file, end)
        elif end and not line.endswith(b"\n"):
            os.pwrite(self._file, b"\n", end)
            end += 1
        return end, n


def encode(data: dict[str, Any]) -> bytes:
    """Return the object as one line of strict JSON; infinities and NaN, which JSON lacks, become null."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(data), allow_nan=False)
    return text.encode() + b"\n"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, whole, even after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Remove what ``write_atomically`` had begun to write in a folder when its process was killed."""
    for path in folder.glob(".*.tmp"):
        writer = path.name.split(".")[-2]
        if writer.isdigit() and not Path("/proc", writer).exists():
            path.unlink(missing_ok=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _write_all(file: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def another_place(error: OSError) -> str:
    """Return what to do where sessions cannot be written."""
    choice = "choose another place with --home."
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"Free some space, or {choice}" if full else f"{choice[0].upper()}{choice[1:]}"


@contextmanager
def _disk_faults(path: Path) -> Iterator[None]:
    """Turn the system's refusals (full disk, no permission) into a fault of the environment."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(
            f"The session cannot be written: {error.strerror}.", where=str(path), next_step=another_place(error)
        ) from error
