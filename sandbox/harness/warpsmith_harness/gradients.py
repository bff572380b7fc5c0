"""Forward and backward of a module: its outputs, and the gradients of its inputs and parameters."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch import nn

from warpsmith_harness import contents, values
from warpsmith_harness.seeds import generator

EXPANDED = "expanded"


class NoGradient(RuntimeError):
    """No output hangs on what gradients are wanted for."""


def leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return inputs that gradients can be asked for, in the same memory."""
    return [
        tensor.detach().requires_grad_() if tensor.is_floating_point() or tensor.is_complex() else tensor
        for tensor in tensors
    ]


def wanted_of(inputs: Sequence[torch.Tensor], module: nn.Module) -> dict[str, torch.Tensor]:
    """Return what gradients may be asked for: inputs by number (``input 0``), parameters by name."""
    named = {f"input {index}": tensor for index, tensor in enumerate(inputs) if tensor.requires_grad}
    trained = dict(module.named_parameters(remove_duplicate=False))
    return {**named, **{name: parameter for name, parameter in trained.items() if parameter.requires_grad}}


def cotangents(outputs: Sequence[torch.Tensor], layout: str = "") -> list[torch.Tensor]:
    """Return random directions, one for each floating output, in order.

    Args:
        outputs: What they are for.
        layout: How they lie in memory: ``expanded`` as ``sum()`` hands a gradient on, one element seen everywhere;
            ``transposed`` as ``t()`` does; else contiguous.
    """
    return [_direction(out, layout) for out in outputs if out.is_floating_point() or out.is_complex()]


def _direction(out: torch.Tensor, layout: str) -> torch.Tensor:
    shape = () if layout == EXPANDED else out.shape
    drawn = torch.randn(shape, generator=generator(out.device), device=out.device, dtype=_wide(out)).to(out.dtype)
    if layout == EXPANDED:
        return drawn.expand(out.shape)
    other = contents.laid_out(layout, drawn) if layout else None
    return drawn if other is None else other


def differentiate(
    call: Callable[[], Any], wanted: dict[str, torch.Tensor], directions: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], Any, dict[str, Optional[torch.Tensor]]]:
    """Call forward and backward.

    Args:
        call: The forward on inputs of ``leaves``.
        wanted: What gradients are asked for.
        directions: Of ``cotangents``.

    Returns:
        The outputs, flattened, their structure, and the gradients by name, None where an output does not depend on one.

    Raises:
        NoGradient: No output hangs on any of them.
    """
    with torch.enable_grad():
        outputs, structure = values.flatten(call())
        floating = [out for out in outputs if out.is_floating_point() or out.is_complex()]
        pairs = [(out, way) for out, way in zip(floating, directions) if out.requires_grad]
        if not pairs:
            raise NoGradient("no output has a gradient: each is detached from the inputs and the parameters")
        found = torch.autograd.grad(
            [o for o, _ in pairs], list(wanted.values()), [w for _, w in pairs], allow_unused=True
        )
    return [out.detach() for out in outputs], structure, dict(zip(wanted, found))


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype if tensor.is_complex() else torch.float32
