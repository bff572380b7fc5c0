"""A question that differs from the last one in a few elements only: what is kept by samples of contents answers it wrongly."""

from __future__ import annotations

from typing import List, Tuple

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.candidate import state
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.questions import Examiner, Question

_PLACES = 3


def changed_a_little(last: Question, task: LoadedTask, reference: nn.Module, examiner: Examiner) -> Question:
    """Ask the last question again with a few elements of floating inputs drawn anew, and a few of the state exchanged.

    Both are what such tensors may hold: an element takes the place of another of the same tensor, or of another draw.
    """
    with torch.no_grad():
        for name, value in state(reference).items():
            value.copy_(last.state[name])
            if value.is_floating_point():
                _exchange(value.detach())
    fresh, _ = values.flatten(task.inputs())
    pairs = zip(last.tensors, fresh)
    tensors = [_replaced(old, new) if _may_change(old, new) else values.clone_like(old) for old, new in pairs]
    return examiner.ask(tensors, last.structure)


def _may_change(old: torch.Tensor, new: torch.Tensor) -> bool:
    floating = old.is_floating_point() and old.layout == torch.strided
    return floating and old.numel() > 0 and old.shape == new.shape


def _replaced(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    changed = values.clone_like(old)
    for place in _places(old):
        changed[place] = new[place]
    return changed


def _exchange(tensor: torch.Tensor) -> None:
    """Let pairs of elements change places, in place."""
    if tensor.numel() > 1 and tensor.layout == torch.strided:
        for one, other in zip(_places(tensor), _places(tensor)):
            kept = tensor[one].clone()
            tensor[one] = tensor[other]
            tensor[other] = kept


def _places(tensor: torch.Tensor) -> List[Tuple[int, ...]]:
    return [tuple(int(torch.randint(size, ())) for size in tensor.shape) for _ in range(_PLACES)]
