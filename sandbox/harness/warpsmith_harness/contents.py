"""Inputs that are harder than those a task draws: other distributions, other layouts in memory, nudged by rounding.

Every function keeps dtype and device, and other contents keep their layout. Contents are drawn from the task's own inputs, so
that they stay near what the reference was written for; where it cannot take them all the same, the case is left out.
"""

from __future__ import annotations

from typing import Callable, Sequence

import torch

from warpsmith_harness.seeds import generator
from warpsmith_harness.transport import span
from warpsmith_harness.values import clone_like

LARGE = "large inputs"
TINY = "tiny inputs"
FLIPPED = "inputs with flipped signs"
MIXED = "inputs of mixed signs"
HEAVY = "inputs with heavy tails"
TIES = "inputs with many ties"
HUGE = "one huge element"
ZEROS = "rows of zeros"
CONSTANT = "constant rows"
ORDERED = "inputs in order"
TIED = frozenset((TIES, ZEROS, CONSTANT))
"""Those in which elements are equal."""

TRANSPOSED = "transposed"
PADDED = "padded"
MISALIGNED = "misaligned"

_TINY_FACTOR = 2.0**-10
_LEAST_LEVELS = 4
_TIED = 8
"""How often a value occurs along the last dimension. With fewer values the rounding errors of a sum would all be alike."""
_LONGEST_TAIL = 100.0
_CONSTANT = 0.5
"""A power of two: sums of it are exact in any order, so that no kernel is blamed for its own order of summation."""
_SHARE_OF_ROWS = 0.25
_NUDGES_OF_WIDE = 32
_DIFFERENT = 65521
"""Nudges that are drawn before they repeat; a prime, so that no two rows have the same."""
_PIECE = 1 << 24


def harder(kind: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return inputs of another distribution; what is not floating, or narrower than 16 bits, stays as it is."""
    open_to_it = [index for index, tensor in enumerate(tensors) if _wide_enough(tensor) and _own_memory(tensor)]
    if kind == HUGE:  # two of them could cancel each other, and then only rounding is left
        open_to_it = sorted(open_to_it, key=lambda index: tensors[index].numel())[-1:]
    return [
        _like(_KINDS[kind](tensor), tensor) if index in open_to_it else tensor for index, tensor in enumerate(tensors)
    ]


def laid_out(kind: str, tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the same contents in another layout, or None where there is no such layout of this tensor."""
    if not tensor.is_contiguous() or tensor.numel() < 2:
        return None
    if kind == MISALIGNED:
        return misaligned(tensor)
    if kind == PADDED:
        width = tensor.shape[-1] if tensor.dim() else 0
        rows = tensor.new_zeros((*tensor.shape[:-1], width + 1))
        if tensor.dim() < 2 or tensor.numel() == width:
            return None
        rows[..., :width] = tensor
        return rows[..., :width]
    largest = sorted(range(tensor.dim()), key=lambda dim: tensor.shape[dim])[-2:]
    if len(largest) < 2 or tensor.shape[largest[0]] < 2:
        return None
    swapped = tensor.transpose(*largest).contiguous()
    return swapped.transpose(*largest)


def misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's contents in memory that begins one element behind an aligned address."""
    memory = tensor.new_empty(tensor.numel() + 1)
    shifted = memory[1:].view(tensor.shape)
    return shifted.copy_(tensor)


def amplitude(tensors: Sequence[torch.Tensor]) -> float:
    """Return the largest relative change that ``nudge`` makes in any of these."""
    return 2 * max((_nudge(tensor) for tensor in tensors if _wide_enough(tensor)), default=0.0)


def nudge(tensor: torch.Tensor) -> None:
    """Change a tensor in place as rounding might: by 32 units in the last place, or one where a unit is coarse.

    A part of it is the same for all elements, for the errors of a sum do not cancel out as those of its terms do. Zeros
    and non-finite values stay. The answers on nudged inputs show how far rounding errors go, whatever the order of
    summation: a sum of a thousand terms may be off by many units of its own.
    """
    if not _wide_enough(tensor) or tensor.numel() == 0:
        return
    draw = generator(tensor.device)
    memory = tensor.detach().as_strided((span(tensor),), (1,))
    memory = torch.view_as_real(memory).view(-1) if memory.is_complex() else memory
    exact = torch.float64 if memory.dtype == torch.float64 else torch.float32
    shared = 1.0 if float(torch.rand((), generator=draw, device=tensor.device)) < 0.5 else -1.0
    for piece in torch.split(memory, _PIECE):
        some = torch.rand(_DIFFERENT, generator=draw, device=piece.device, dtype=exact).mul_(2).sub_(1)
        factors = (
            some.add_(shared).mul_(_nudge(tensor)).add_(1).repeat(-(-piece.numel() // _DIFFERENT))[: piece.numel()]
        )
        piece.copy_(factors.mul_(piece))


def _nudge(tensor: torch.Tensor) -> float:
    eps = torch.finfo(tensor.dtype).eps
    return eps if tensor.dtype.itemsize < 4 else _NUDGES_OF_WIDE * eps


def _wide_enough(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype.itemsize > 1


def _own_memory(tensor: torch.Tensor) -> bool:
    """Whether it holds elements, each with a place of its own, as those of an expanded tensor have not."""
    return 0 < tensor.numel() <= span(tensor)


# --- Distributions --------------------------------------------------------------------------------------------------


def _large(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * (8 if tensor.dtype == torch.float16 else 32)


def _tiny(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * _TINY_FACTOR


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Put the same values in order along the last dimension, so that the largest of them are neighbours."""
    if tensor.is_complex():
        return tensor
    return tensor.sort(dim=-1, descending=bool(_uniform(tensor).flatten()[0] < 0.5)).values


def _flipped(tensor: torch.Tensor) -> torch.Tensor:
    return -tensor


def _mixed(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(_uniform(tensor) < 0.5, -tensor, tensor)


def _heavy(tensor: torch.Tensor) -> torch.Tensor:
    """Multiply by what has a power law as its distribution: most elements stay, a few grow much."""
    return tensor * _uniform(tensor).clamp_min(_LONGEST_TAIL**-2).rsqrt().to(tensor.dtype)


def _ties(tensor: torch.Tensor) -> torch.Tensor:
    """Leave some of its own values, each several times."""
    flat = tensor.reshape(-1)
    draw = generator(tensor.device)
    count = max(_LEAST_LEVELS, (tensor.shape[-1] if tensor.dim() else 1) // _TIED)
    levels = flat[torch.randint(flat.numel(), (count,), generator=draw, device=tensor.device)]
    return levels[torch.randint(count, tensor.shape, generator=draw, device=tensor.device)]


def _huge(tensor: torch.Tensor) -> torch.Tensor:
    made = clone_like(tensor)
    factor = 64.0 if tensor.dtype == torch.float16 else 256.0
    draw = generator(torch.device("cpu"))
    where = [int(torch.randint(size, (), generator=draw)) for size in tensor.shape]
    made[tuple(where)] = factor * torch.nan_to_num(tensor.abs(), 0.0, 0.0, 0.0).max()
    return made


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return _with_rows(tensor, 0.0)


def _constant(tensor: torch.Tensor) -> torch.Tensor:
    return _with_rows(tensor, _CONSTANT)


def _with_rows(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """Fill some rows along the last dimension, the first of them always."""
    if tensor.dim() < 2:
        return tensor
    chosen = torch.rand(tensor.shape[:-1], generator=generator(tensor.device), device=tensor.device) < _SHARE_OF_ROWS
    chosen.view(-1)[0] = True
    return torch.where(chosen.unsqueeze(-1), torch.full_like(tensor, value), tensor)


def _uniform(tensor: torch.Tensor) -> torch.Tensor:
    return torch.rand(tensor.shape, generator=generator(tensor.device), device=tensor.device)


def _like(made: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Give contents the strides of another tensor."""
    return made if made.stride() == tensor.stride() else clone_like(tensor).copy_(made)


_KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    ORDERED: _ordered,
    LARGE: _large,
    TINY: _tiny,
    FLIPPED: _flipped,
    MIXED: _mixed,
    HEAVY: _heavy,
    TIES: _ties,
    HUGE: _huge,
    ZEROS: _zeros,
    CONSTANT: _constant,
}
