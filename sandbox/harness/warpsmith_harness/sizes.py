"""Inputs at other sizes than those a task draws, along the dimensions that it declares as dynamic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Sequence

import torch

from warpsmith_harness import values
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.seeds import generator

_NEXT = "Name dimensions as the signature does: --dynamic x.0=1:4096, or x.0,y.0=1:4096 for those that change together."


@dataclass(frozen=True)
class Dynamic:
    """Dimensions that have one size together: ``places`` are (input, dimension), ``size`` is what the task draws."""

    dims: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    low: int
    high: int
    size: int


def dynamic_dimensions(
    spec: dict[str, Any], names: Sequence[str], tensors: Sequence[torch.Tensor]
) -> tuple[Dynamic, ...]:
    """Return the declared dimensions as they are found in the inputs.

    Raises:
        TaskProblem: A name is unknown, or the drawn sizes do not fit the declaration.
    """
    found = []
    for declared in spec.get("dynamic", ()):
        places = tuple(_place(dim, names, tensors) for dim in declared["dims"])
        sizes = {tensors[index].shape[dim] for index, dim in places}
        dims, low, high = tuple(declared["dims"]), int(declared["low"]), int(declared["high"])
        if len(sizes) > 1:
            shown = ", ".join(f"{name} is {tensors[i].shape[dim]}" for name, (i, dim) in zip(dims, places))
            raise TaskProblem(f"Dimensions that change together must begin equal, and {shown}.", "--dynamic", _NEXT)
        size = sizes.pop()
        if not low <= size <= high:
            raise TaskProblem(
                f"The task draws {dims[0]} with the size {size}, which does not lie in {low}:{high}.",
                "--dynamic",
                "Declare a range around it, or give other inputs.",
            )
        found.append(Dynamic(dims, places, low, high, size))
    taken = [place for each in found for place in each.places]
    if len(set(taken)) < len(taken):
        raise TaskProblem("A dimension is declared twice.", "--dynamic", _NEXT)
    return tuple(found)


def resized(tensors: Sequence[torch.Tensor], dynamic: Sequence[Dynamic], sizes: Sequence[int]) -> list[torch.Tensor]:
    """Return inputs of other sizes, one size for each declared dimension.

    Rows are picked from the drawn ones, in order, the same for all dimensions that change together, so that masks and
    offsets stay what they are. Where a tensor grows, its floating contents are drawn again from its own values: equal
    rows would hide a kernel that takes the wrong one.
    """
    made, grown = list(tensors), set()
    for each, size in zip(dynamic, sizes):
        picked = _picked(each.size, size, tensors[each.places[0][0]].device)
        for index, dim in each.places:
            made[index] = made[index].index_select(dim, picked.to(made[index].device))
            grown |= {index} if size > each.size else set()
    for index in {index for each in dynamic for index, _ in each.places}:
        tensor = made[index]
        floating = tensor.is_floating_point() or tensor.is_complex()
        tensor = values.fresh(tensor) if index in grown and floating else tensor
        made[index] = _in_format(tensor, tensors[index])
    return made


def others(dynamic: Sequence[Dynamic]) -> Iterator[list[int]]:
    """Yield a few sizes that are not those drawn, to see whether the reference takes any.

    Where there are others, 1 is not among them: a dimension of one element fits beside any other by broadcasting, which
    says nothing of the sizes that were meant.
    """
    small, drawn = [each.low for each in dynamic], [each.size for each in dynamic]
    middle = [(low + size) // 2 for low, size in zip(small, drawn)]
    wanted = [middle, small, [each.high for each in dynamic]]
    telling = [sizes for sizes in wanted if sizes != drawn and 1 not in sizes]
    yield from telling or [sizes for sizes in wanted if sizes != drawn]


def _place(text: str, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> tuple[int, int]:
    name, _, number = text.rpartition(".")
    if name not in names:
        raise TaskProblem(f"There is no input {name!r}; the inputs are {', '.join(names)}.", "--dynamic", _NEXT)
    index = list(names).index(name)
    dim = int(number)
    if not 0 <= dim < tensors[index].dim():
        shape = list(tensors[index].shape)
        raise TaskProblem(f"{name} has the shape {shape}, and no dimension {dim}.", "--dynamic", _NEXT)
    return index, dim


def _picked(old: int, new: int, device: torch.device) -> torch.Tensor:
    """Return sorted indices into a dimension; the first and the last are among them, as an offset's end must be."""
    if old == 0 or new == 0:
        return torch.zeros(new if old else 0, dtype=torch.int64, device=device)
    draw = generator(device)
    if new > old:
        more = torch.randint(old, (new - old,), generator=draw, device=device)
        return torch.cat([torch.arange(old, device=device), more]).sort().values
    picked = torch.randperm(old, generator=draw, device=device)[:new].sort().values
    picked[-1] = old - 1
    if new > 1:
        picked[0] = 0
    return picked


def _in_format(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return it in the memory format of another tensor."""
    if like.dim() == 4 and not like.is_contiguous() and like.is_contiguous(memory_format=torch.channels_last):
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor.contiguous()
