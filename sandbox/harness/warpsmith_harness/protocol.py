"""Messages between the judge's processes: JSON frames with a length in front, over a Unix socket pair.

File descriptors travel beside a frame where the receiver asks for them. Both ends are one class, used by the parent
(which has no torch) and by the harness (which has nothing but torch).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import socket
import struct
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

FRAME_LIMIT = 64 * 1024 * 1024
DEPTH_LIMIT = 100
"""Objects and lists inside each other; what may be read must also be written, by functions that call themselves."""
TAMPERED = 87
"""Exit status of a worker in which the candidate replaced the judge's code, see ``seal``."""
_HEADER = struct.Struct(">I")
_MAX_FDS = 8

Message = Dict[str, Any]


class ChannelClosed(Exception):
    """The other end is gone, or this one was closed."""


class ChannelTimeout(Exception):
    """The other end did not answer in time, or read nothing."""


class ChannelGarbage(Exception):
    """The other end sent what is no message: a frame too large, not JSON, or nested too deep."""


class Channel:
    """One end of a socket pair that carries messages.

    Args:
        sock: A connected stream socket; the channel owns it from now on.
        limit: Largest frame accepted, in bytes. What a candidate's process sends is not to be trusted.
    """

    def __init__(self, sock: socket.socket, limit: int = FRAME_LIMIT) -> None:
        self._socket = sock
        self._limit = limit

    @classmethod
    def of_descriptor(cls, descriptor: int) -> Channel:
        """Take over an inherited socket descriptor."""
        return cls(socket.socket(fileno=descriptor))

    @classmethod
    def of_path(cls, path: str) -> Channel:
        """Connect to whoever listens at a path."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(path)
        return cls(sock)

    def fileno(self) -> int:
        """Return the descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = (), timeout: Optional[float] = None) -> None:
        """Send one message; an end that reads nothing is waited for ``timeout`` seconds.

        Raises:
            ChannelClosed, ChannelTimeout: See there.
        """
        body = json.dumps(message).encode()
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            if descriptors:
                self._await_room(deadline)
                socket.send_fds(self._socket, [_HEADER.pack(len(body))], list(descriptors))
                self._write(body, deadline)
            else:
                self._write(_HEADER.pack(len(body)) + body, deadline)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def ready(self, timeout: Optional[float] = 0.0) -> bool:
        """Tell whether something can be read (also the other end's leaving) within ``timeout`` seconds.

        Raises:
            ChannelClosed: It was closed at this end.
        """
        if self.fileno() < 0:
            raise ChannelClosed("It was closed at this end.")
        return bool(select.select([self._socket], [], [], timeout)[0])

    def receive(self, timeout: Optional[float] = None) -> Message:
        """Return the next message; descriptors sent with it are dropped.

        Raises:
            ChannelClosed, ChannelTimeout, ChannelGarbage: See there.
        """
        return self._frame(timeout, 0)[0]

    def receive_with_descriptors(self, timeout: Optional[float] = None) -> Tuple[Message, List[int]]:
        """Return the next message and the descriptors sent with it, which the caller owns."""
        return self._frame(timeout, _MAX_FDS)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _write(self, data: bytes, deadline: Optional[float]) -> None:
        """Write everything, without ever standing in a call that only the other end can end."""
        left = memoryview(data)
        while left:
            self._await_room(deadline)
            with contextlib.suppress(BlockingIOError):
                left = left[self._socket.send(left, socket.MSG_DONTWAIT) :]

    def _await_room(self, deadline: Optional[float]) -> None:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([], [self._socket], [], timeout)[1]:
            raise ChannelTimeout("the other end reads nothing")

    def _frame(self, timeout: Optional[float], descriptors: int) -> Tuple[Message, List[int]]:
        deadline = None if timeout is None else time.monotonic() + timeout
        header, found = self._read(_HEADER.size, deadline, descriptors)
        try:
            (length,) = _HEADER.unpack(header)
            if length > self._limit:
                raise ChannelGarbage(f"a message of {length} bytes")
            body, _ = self._read(length, deadline, 0)
            message = json.loads(body)
            if not isinstance(message, dict):
                raise ChannelGarbage("a message that is no object")
            if _is_deep(message):
                raise ChannelGarbage(f"a message nested more than {DEPTH_LIMIT} deep")
        except (ValueError, RecursionError) as error:
            _close_all(found)
            raise ChannelGarbage(str(error)) from error
        except BaseException:
            _close_all(found)
            raise
        return message, found

    def _read(self, size: int, deadline: Optional[float], descriptors: int) -> Tuple[bytes, List[int]]:
        parts: List[bytes] = []
        found: List[int] = []
        missing = size
        while missing:
            if deadline is not None and not self.ready(max(0.0, deadline - time.monotonic())):
                raise ChannelTimeout(f"no answer ({size - missing} of {size} bytes)")
            try:
                if descriptors:
                    part, fds, _, _ = socket.recv_fds(self._socket, missing, descriptors)
                    found.extend(fds)
                else:
                    part = self._socket.recv(min(missing, 1 << 20))
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not part:
                raise ChannelClosed("the other end is gone")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts), found


def signature(answer: Message, number: int) -> str:
    """Return what belongs to an answer and the number of its request: whoever changes one on its way has to know it."""
    body = json.dumps({key: value for key, value in answer.items() if key not in ("id", "signature")})
    return hashlib.blake2s(body.encode(), key=number.to_bytes(8, "big"), digest_size=8).hexdigest()


def pair() -> Tuple[socket.socket, socket.socket]:
    """Return both ends of a new stream; neither is inherited across ``exec`` unless passed on."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def _is_deep(message: Any) -> bool:
    """Tell whether anything lies deeper in a message than is allowed."""
    level = [message]
    for _ in range(DEPTH_LIMIT):
        below: List[Any] = []
        for each in level:
            if isinstance(each, (dict, list)):
                below.extend(each.values() if isinstance(each, dict) else each)
        if not below:
            return False
        level = below
    return True


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
