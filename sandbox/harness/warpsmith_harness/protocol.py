"""Messages between the judge's processes: JSON frames with a length in front, over a Unix socket pair.

File descriptors travel beside a frame where the receiver asks for them. Both ends are one class, used by the parent
(which has no torch) and by the harness (which has nothing but torch).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

FRAME_LIMIT = 64 * 1024 * 1024
_HEADER = struct.Struct(">I")
_MAX_FDS = 8

Message = Dict[str, Any]


class ChannelClosed(Exception):
    """The other end is gone."""


class ChannelTimeout(Exception):
    """The other end did not answer in time."""


class ChannelGarbage(Exception):
    """The other end sent what is no message: a frame too large, or not JSON."""


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

    def fileno(self) -> int:
        """Return the descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send one message; raises ``ChannelClosed``."""
        body = json.dumps(message).encode()
        header = _HEADER.pack(len(body))
        try:
            if descriptors:
                socket.send_fds(self._socket, [header], list(descriptors))
                self._socket.sendall(body)
            else:
                self._socket.sendall(header + body)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def ready(self, timeout: Optional[float] = 0.0) -> bool:
        """Tell whether something can be read (also the other end's leaving) within ``timeout`` seconds."""
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


def pair() -> Tuple[socket.socket, socket.socket]:
    """Return both ends of a new stream; neither is inherited across ``exec`` unless passed on."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
