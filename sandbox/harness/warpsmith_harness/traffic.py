"""How many bytes a task must move: what a memory-bound candidate can be held against."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.subject import Subject

_TABLES = (nn.Embedding, nn.EmbeddingBag)


def bytes_moved(subject: Subject, used: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Return the bytes of used inputs, used state and outputs, once each; of a table, the rows that are looked up."""
    looked_up = sum(tensor.numel() for tensor in subject.inputs if not tensor.is_floating_point())
    rows = {
        id(parameter): looked_up * parameter.shape[1] * parameter.element_size()
        for module in subject.reference.modules()
        if isinstance(module, _TABLES)
        for parameter in [module.weight]
    }
    sizes = [min(_bytes(tensor), rows.get(id(tensor), _bytes(tensor))) for tensor in used]
    return sum(sizes) + sum(_bytes(tensor) for tensor in outputs)


def least_bytes(subject: Subject, outputs: Sequence[torch.Tensor]) -> int:
    """Return bytes that no implementation can avoid: outputs, and the floats that they have a gradient to.

    A module may read a part of its inputs only (the last token, every other column), so the whole inputs are no lower
    bound. Elements whose gradient happens to be 0 are left out as well: the bound is low rather than wrong. Where no
    gradient can be had, it is the outputs alone.
    """
    written = sum(_bytes(tensor) for tensor in outputs)
    try:
        return written + sum(_touched(subject))
    except (RuntimeError, TaskProblem):  # no derivative, an in-place operation on a leaf, or not enough memory for it
        return written


def _touched(subject: Subject) -> list[int]:
    leaves = [values.clone_like(t).requires_grad_() if t.is_floating_point() else t for t in subject.inputs]
    floats = [leaf for leaf in leaves if leaf.requires_grad]
    floats += [parameter for parameter in subject.reference.parameters() if parameter.requires_grad]
    outputs = [out for out in subject.differentiable(leaves) if out.requires_grad]
    if not outputs or not floats:
        return []
    weights = [torch.rand_like(out) + 0.5 for out in outputs]
    gradients = torch.autograd.grad(outputs, floats, weights, allow_unused=True)
    return [
        int(torch.count_nonzero(gradient)) * leaf.element_size()
        for leaf, gradient in zip(floats, gradients)
        if gradient is not None and gradient.layout == torch.strided
    ]


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
