"""The harness as seen from outside: where it lies, and the messages both ends share.

The harness is a program for another interpreter. Its protocol module needs only the standard library, so this side
uses the very same one instead of a copy.
"""

from __future__ import annotations

import sys
from pathlib import Path

HARNESS = Path(__file__).resolve().parent / "harness"
MAIN = HARNESS / "main.py"

if str(HARNESS) not in sys.path:
    sys.path.append(str(HARNESS))

from warpsmith_harness.protocol import (  # noqa: E402
    Channel,
    ChannelClosed,
    ChannelGarbage,
    ChannelTimeout,
    Message,
    pair,
)

__all__ = ["HARNESS", "MAIN", "Channel", "ChannelClosed", "ChannelGarbage", "ChannelTimeout", "Message", "pair"]
