"""Inputs that both processes use where they lie: how they are renewed, watched and timed on, see ``crowded``."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from warpsmith_harness import values
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.placement import time_side
from warpsmith_harness.protocol import Message
from warpsmith_harness.surroundings import surroundings
from warpsmith_harness.timing import Arena, Call, Stopwatch, Turn
from warpsmith_harness.transport import span

PIECE_BYTES = 64 * 1024 * 1024
"""What is worked on at once, where nothing may be held twice."""


class LentArena(Arena):
    """The buffers of a placement whose inputs lie in shared memory and are renewed where they are.

    Args:
        tensors: The inputs.
        structure: Of the forward's arguments.
        rollable: Whether parts of floating inputs may be exchanged.
    """

    def __init__(self, tensors: List[torch.Tensor], structure: Any, rollable: bool) -> None:
        super().__init__([tensors], structure, 0, rollable)
        self.slots = 1
        args, kwargs = values.rebuild(structure, tensors)
        self._given: Tuple[Tuple[Any, ...], Dict[str, Any]] = (tuple(args), kwargs)

    def fill(self, turn: Turn) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        """Exchange the beginning of each floating input with its end, as far as the turn says."""
        for tensor in self.bases[0]:
            if self._rollable and tensor.is_floating_point():
                exchange(tensor, turn.roll)
        return self._given


def exchange(tensor: torch.Tensor, share: float) -> None:
    """Exchange the first elements of a tensor's memory with as many of its last ones: twice is not at all."""
    flat = tensor.detach().as_strided((span(tensor),), (1,))
    count, most = int(flat.numel() * share) // 2, max(1, PIECE_BYTES // tensor.element_size())
    for start in range(0, count, most):
        end = min(count, start + most)
        first, last = flat[start:end], flat[flat.numel() - count + start : flat.numel() - count + end]
        kept = first.clone()
        first.copy_(last)
        last.copy_(kept)


def contents_sum(tensor: torch.Tensor) -> int:
    """Return a sum over a tensor's elements that their order does not change."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    flat = tensor.detach().as_strided((span(tensor),), (1,))
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    total = 0
    for piece in torch.split(flat.view(integers[flat.element_size()]), PIECE_BYTES // 64):
        words = piece.to(torch.int64)
        total += int(((words ^ (words >> 7)) * (2 * words + 0x9E3779B1)).sum())
    return total % 2**64


def tidy(device: torch.device) -> None:
    """Give back what the allocator keeps for later: the other process has its turn."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()


def time_once_warm(
    stopwatch: Stopwatch, call: Call, arena: Arena, request: Message, task: LoadedTask
) -> Tuple[Dict[str, Any], Optional[Any]]:
    """As ``placement.time_side``, behind a call that gets the memory which the other process gave back."""
    if request["kind"] in ("device", "latency", "burst"):
        args, kwargs = arena.fill(Turn(0, 0, 0.0))
        with surroundings(task.spec):
            call(*args, **kwargs)
        stopwatch.settle()
    try:
        return time_side(stopwatch, call, arena, request, task.spec)
    finally:
        tidy(task.device)
