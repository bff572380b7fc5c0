"""Fences around what a candidate is given and what it allocates: memory of ours with a pattern in it.

Allocators cut tensors out of larger blocks, and whoever writes a little beyond one meets nobody. Here that is seen
behind the call. Whoever reads there gets NaN, or the largest integer, and answers wrongly where it matters; what is read
and thrown away, as wide loads do at the end of a row, makes no difference.
"""

from __future__ import annotations

import ctypes
from typing import List, Sequence, Tuple

import torch

from warpsmith_harness.transport import ALIGNMENT, Note, blank, span

WIDTH = 16 * 1024
"""Bytes of a fence, on either side: some rows, and a multiple of every alignment that kernels ask for."""
_BYTE = 0xFF
_MOST_BYTES = 256 * 1024 * 1024
"""What is fenced of a call's own allocations, together: they are kept until it ends."""


class Fences:
    """The fences of one call, or of what it is given."""

    def __init__(self) -> None:
        self._left = _MOST_BYTES
        self._standing: List[Tuple[str, torch.Tensor]] = []

    def blank(self, note: Note, device: torch.device) -> torch.Tensor:
        """Return an uninitialised tensor as ``transport.blank`` does, within fences."""
        like = blank({**note, "shape": [0], "stride": [1]}, device)
        return self._fence(f"an input ({note['dtype']} {note['shape']})", like, note["shape"], note["stride"])

    def around(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return new memory within fences in a tensor's place, or that tensor itself where it cannot be replaced."""
        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or tensor.is_quantized:
            return tensor
        size = span(tensor) * tensor.element_size()
        if not 0 < size <= self._left or tensor.requires_grad or tensor.is_meta or tensor.is_pinned():
            return tensor
        self._left -= size
        return self._fence("memory that it allocated", tensor, tensor.shape, tensor.stride())

    def take_down(self) -> None:
        """Find nothing any more: a tensor got another size, or other memory, and its fences would be in the way."""
        self._left = 0
        self._standing = []

    def broken(self) -> List[str]:
        """Return beyond what somebody wrote."""
        return sorted({name for name, fence in self._standing if not _is_whole(fence)})

    def _fence(self, name: str, like: torch.Tensor, shape: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
        elements = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride))
        end = WIDTH + elements * like.element_size()
        size = -(-end // ALIGNMENT) * ALIGNMENT + WIDTH
        memory = torch.empty(size, dtype=torch.uint8, device=like.device)
        for fence in (memory[:WIDTH], memory[end:]):
            fence.fill_(_BYTE)
            self._standing.append((name, fence))
        return memory[WIDTH:end].view(like.dtype).as_strided(shape, stride)


def _is_whole(fence: torch.Tensor) -> bool:
    """Tell whether a fence is as it was; on the CPU without a thread pool."""
    if fence.device.type == "cpu":
        return ctypes.string_at(fence.data_ptr(), fence.numel()).count(_BYTE) == fence.numel()
    return bool((fence == _BYTE).all())
