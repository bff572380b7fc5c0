"""Fresh inputs that are like those which were seen: for captures, and for inputs that were saved to a file."""

from __future__ import annotations

from typing import Any

import torch

from warpsmith_harness import values
from warpsmith_harness.problems import TaskProblem, summary
from warpsmith_harness.seeds import generator
from warpsmith_harness.transport import span

SUFFIXES = (".pt", ".pth")
_LOOKED_AT = 1 << 16
_ENDS_OF_A_RUN = 2
_COLUMNS = 4
"""A dimension of up to so many entries holds things of different meaning, such as the two ends of an edge."""


def drawn(tensor: torch.Tensor) -> torch.Tensor:
    """Return new contents like those that were seen.

    Floats are drawn again from their own values, which keeps mean, spread and what is not finite; those of two values are
    masks and stay. Booleans are shuffled within each row, which keeps its share, where they are no run of equal ones, as
    in masks for padding and for what is later. Integers, which may point into something, are shuffled among places of one
    meaning, so that none leaves the range it was seen in there; what ascends or descends stays.
    """
    if tensor.numel() == 0:
        return values.clone_like(tensor)
    if tensor.dtype == torch.bool:
        return _mask(tensor)
    if tensor.is_floating_point() or tensor.is_complex():
        return values.clone_like(tensor) if _two_valued(tensor) else values.fresh(tensor)
    return _shuffled(tensor)


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device with the strides it has, gaps and overlaps included."""
    memory = tensor.detach().as_strided((span(tensor),), (1,)).to(device)
    return memory.as_strided(tensor.shape, tensor.stride(), 0)


def at(device: torch.device, value: Any) -> Any:
    """Return an argument, with the device it may name replaced by this one."""
    named = isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] == "cuda")
    return (device if isinstance(value, torch.device) else str(device)) if named else value


def saved(path: str) -> Any:
    """Read forward arguments from a file that ``torch.save`` wrote: a tuple, a list or a dict of tensors."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several kinds for what it does not read
        raise TaskProblem(
            f"The saved inputs cannot be read: {summary(error)}",
            path,
            "Save a tuple, a list or a dict of tensors and plain values with torch.save.",
        ) from error


def _two_valued(tensor: torch.Tensor) -> bool:
    if tensor.is_complex() or tensor.numel() < 3 or tensor.dtype.itemsize == 1:
        return False
    some = tensor.detach().reshape(-1)[:_LOOKED_AT]
    return bool(((some == some.min()) | (some == some.max())).all())


def _shuffled(tensor: torch.Tensor) -> torch.Tensor:
    """Shuffle integers along their longest dimension, across the others too where those are long."""
    made = values.clone_like(tensor)
    if tensor.numel() < 2 or span(tensor) < tensor.numel():
        return made
    longest = max(range(tensor.dim()), key=lambda dim: tensor.shape[dim])
    moved = made.movedim(longest, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    steps = rows.diff(dim=-1)
    stays = (steps >= 0).all(-1) | (steps <= 0).all(-1)
    if bool(stays.all()):
        return made
    if tensor.dim() == 1 or min(moved.shape[:-1]) > _COLUMNS:
        rows, stays = rows.reshape(1, -1), stays.new_zeros(1)
    moved.copy_(_mixed(rows, stays).view(moved.shape))
    return made


def _mask(tensor: torch.Tensor) -> torch.Tensor:
    """Shuffle each row of booleans that is more than one run of equal ones among others."""
    made = values.clone_like(tensor)
    if tensor.dim() and span(tensor) >= tensor.numel():
        rows = made.reshape(-1, made.shape[-1])
        stays = (rows[:, 1:] != rows[:, :-1]).sum(-1) <= _ENDS_OF_A_RUN
        made.copy_(_mixed(rows, stays).view(made.shape))
    return made


def _mixed(rows: torch.Tensor, stays: torch.Tensor) -> torch.Tensor:
    """Return rows with the elements of each in another order, but for those that stay."""
    order = torch.rand(rows.shape, generator=generator(rows.device), device=rows.device).argsort(-1)
    return torch.where(stays.unsqueeze(-1), rows, rows.gather(-1, order))
