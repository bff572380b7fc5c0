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
_LARGE_BYTES = 256 * 1024 * 1024
"""Inputs above this are not kept twice, and lie there from the beginning."""

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
        if device.type == "cuda":
            plain = [each.detach() for each in inputs if each.layout == torch.strided and each.device.type == "cuda"]
            small = [each for each in plain if each.numel() * each.element_size() <= _LARGE_BYTES]
            self._kept = [(each, values.clone_like(each)) for each in small]

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
