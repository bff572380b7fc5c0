"""What memory holds that nobody has written to: by turns NaN, and numbers that mean nothing.

NaN spreads from every read of memory that was never written. But a kernel may look for it, and be honest only where it
finds it; numbers, as an earlier answer may have left them there, show that.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
from typing import Dict, Iterator, Sequence

import torch

from warpsmith_harness.values import memory

NAN_BYTE = 0xFF
"""NaN in every floating dtype, -1 in signed integers."""
C_LIBRARY_BYTE = 0xFE
"""What ``malloc`` fills with in NaN's turn: it cannot be asked for 0xFF."""
LOWEST, HIGHEST = 0x21, 0x7B
"""Bytes between them, in any order, are a finite number in every floating dtype of two bytes or more."""
_TILE = 16 * 1024
_TWICE_BYTES = 256 * 1024 * 1024
"""Above this nothing is taken twice: the device may have no room for it."""
_M_PERTURB = -6


class Poison:
    """Fills memory with what no honest answer holds; every turn with something else.

    Attributes:
        byte: What the host's memory is filled with in this turn.
    """

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self._numbers = True
        self._start = 0
        draw = torch.Generator().manual_seed(self._random.getrandbits(63))
        drawn = torch.randint(LOWEST, HIGHEST + 1, (2 * _TILE,), dtype=torch.uint8, generator=draw)
        self._drawn: Dict[torch.device, torch.Tensor] = {drawn.device: drawn}
        self.byte = NAN_BYTE

    def turn(self) -> None:
        """Go on to NaN, and from NaN to numbers."""
        self._numbers = not self._numbers
        self._start = self._random.randrange(_TILE)
        self.byte = self._random.randint(LOWEST, HIGHEST) if self._numbers else NAN_BYTE

    def fill(self, tensors: Sequence[torch.Tensor]) -> None:
        """Fill tensors in place, with the gaps between their elements."""
        for tensor in tensors:
            span = memory(tensor.detach())
            raw = (torch.view_as_real(span) if span.is_complex() else span).view(torch.uint8).view(-1)
            if self._numbers:
                tile = self._tile(raw.device)
                whole = raw.numel() // _TILE * _TILE
                raw[:whole].view(-1, _TILE).copy_(tile)
                raw[whole:].copy_(tile[: raw.numel() - whole])
            else:
                raw.fill_(NAN_BYTE)

    def leave(self, sizes: Sequence[int], device: torch.device) -> None:
        """Leave poison in what an allocator hands out next: take blocks of these bytes, fill them, free them."""
        self.fill([torch.empty(size, dtype=torch.uint8, device=device) for size in sizes])

    @contextlib.contextmanager
    def handed_out(self, sizes: Sequence[int], device: torch.device) -> Iterator[None]:
        """Let the allocators hand out nothing else meanwhile.

        Args:
            sizes: Bytes of the blocks that will be asked for, each once or twice.
            device: Where; on the CPU it is whatever comes from the C library, of any size.
        """
        if device.type == "cuda":
            self.leave([*sizes, *(size for size in sizes if size <= _TWICE_BYTES)], device)
            yield
            return
        perturb(0xFF ^ (self.byte if self._numbers else C_LIBRARY_BYTE))
        try:
            yield
        finally:
            perturb(0)

    def _tile(self, device: torch.device) -> torch.Tensor:
        if device not in self._drawn:
            self._drawn[device] = next(iter(self._drawn.values())).to(device)
        return self._drawn[device][self._start : self._start + _TILE]


def perturb(byte: int) -> None:
    """Make the C library fill what it allocates with the complement of a byte; 0 stops it."""
    ctypes.CDLL(None).mallopt(_M_PERTURB, byte)
