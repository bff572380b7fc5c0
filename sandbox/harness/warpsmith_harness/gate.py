"""Holds the caller's stream back while a call is queued, and lets the inputs arrive behind that.

What a candidate puts on another stream without waiting for the caller's runs at once and finds no inputs; what it puts
there and nobody waits for has not begun when the caller's next work is queued. On an idle device both are finished
before anybody can look, and pass for ordered.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import torch

from warpsmith_harness import values

_CYCLES = 6_000_000
"""Some 3 ms: longer than Python takes to queue a call, and nothing beside the second a verdict takes."""
_MOST_BYTES = 256 * 1024 * 1024
"""More than this is not kept twice: the inputs that it does not hold lie there from the beginning."""

_cuda: Any = torch.cuda


class Gate:
    """A stream that is held back, and the inputs that arrive on it afterwards.

    Args:
        inputs: What the call gets. Copied at once, so that nothing is allocated between ``close`` and the call.
        device: Where it runs; on a CPU nothing is held back.
    """

    def __init__(self, inputs: Sequence[torch.Tensor], device: torch.device) -> None:
        self._device = device
        self._kept: List[Tuple[torch.Tensor, torch.Tensor]] = []
        left = _MOST_BYTES if device.type == "cuda" else -1
        for tensor in inputs:
            left -= tensor.untyped_storage().nbytes() if tensor.layout == torch.strided else 0
            if left >= 0 and tensor.layout == torch.strided and tensor.device.type == "cuda":
                self._kept.append((tensor.detach(), values.clone_like(tensor.detach())))

    def close(self) -> None:
        """Take the inputs away, and queue a wait on the current stream and their return behind it."""
        if self._device.type != "cuda":
            return
        for tensor, _ in self._kept:
            values.memory(tensor).zero_()
        _cuda.synchronize(self._device)
        _cuda._sleep(_CYCLES)
        for tensor, copy in self._kept:
            values.memory(tensor).copy_(values.memory(copy))
