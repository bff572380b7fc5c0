"""The harness as seen from outside: where it lies, and the messages both ends share.

The harness is a program for another interpreter. Its protocol, its queue for devices and its way of writing values need only
the standard library, so this side uses the very same ones instead of copies.
"""

from __future__ import annotations

import sys
from pathlib import Path

HARNESS = Path(__file__).resolve().parent / "harness"
MAIN = HARNESS / "main.py"

if str(HARNESS) not in sys.path:
    sys.path.append(str(HARNESS))

from warpsmith_harness.control_group import sweep as sweep_control_groups  # noqa: E402
from warpsmith_harness.device_queue import (  # noqa: E402
    BEAT_SECONDS,
    EXCLUSIVE,
    SHARED,
    DeviceQueue,
    Entry,
    Owner,
    QueueStuck,
    Ticket,
    device_name,
    open_queue,
    user_name,
)
from warpsmith_harness.literals import literal  # noqa: E402
from warpsmith_harness.protocol import (  # noqa: E402
    TAMPERED,
    Channel,
    ChannelClosed,
    ChannelGarbage,
    ChannelTimeout,
    Message,
    pair,
    signature,
)

__all__ = [
    "BEAT_SECONDS",
    "EXCLUSIVE",
    "HARNESS",
    "MAIN",
    "SHARED",
    "TAMPERED",
    "Channel",
    "ChannelClosed",
    "ChannelGarbage",
    "ChannelTimeout",
    "DeviceQueue",
    "Entry",
    "Message",
    "Owner",
    "QueueStuck",
    "Ticket",
    "device_name",
    "literal",
    "open_queue",
    "pair",
    "signature",
    "sweep_control_groups",
    "user_name",
]
