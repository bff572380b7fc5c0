"""Reads the time at a place of the program: the host's clock, and where a GPU works, an event on its current stream."""

from __future__ import annotations

from typing import Any, List, Optional

import torch

_cuda: Any = torch.cuda
_KEPT_EVENTS = 20_000


class DeviceClock:
    """Makes events on the current stream of one device, and tells the time between two of them once both are past.

    Attributes:
        device: The GPU whose stream is timed; None where the work is the host's.
    """

    def __init__(self) -> None:
        self.device: Optional[torch.device] = None
        self._free: List[Any] = []

    def look_at(self, device: Optional[torch.device]) -> None:
        """Time the work of this device from now on; what is being captured into a CUDA graph is not timed."""
        usable = device is not None and device.type == "cuda" and not _cuda.is_current_stream_capturing()
        self.device = device if usable else None

    def mark(self) -> Any:
        """Return an event that was just put on the stream, or None where the host works."""
        if self.device is None:
            return None
        event = self._free.pop() if self._free else _cuda.Event(enable_timing=True)
        event.record(_cuda.current_stream(self.device))
        return event

    def take_back(self, event: Any) -> None:
        """Use an event again that nobody needs any more."""
        if event is not None and len(self._free) < _KEPT_EVENTS:
            self._free.append(event)

    def forget(self) -> None:
        """Leave the events of another process alone: in a forked child they must not even be destroyed."""
        _left_alone.append(self._free)
        self._free = []
        self.device = None


_left_alone: List[Any] = []


def between_ns(earlier: Any, later: Any) -> Optional[float]:
    """Return the nanoseconds of device time between two events, None where they are not two of one device."""
    if earlier is None or later is None or earlier.device != later.device:
        return None
    return float(earlier.elapsed_time(later)) * 1e6


def is_past(event: Any) -> bool:
    """Tell whether the device has come by an event; never waits."""
    return event is None or bool(event.query())
