"""A capture of one module that a program has at hand, with the inputs it gives: what ``warpsmith.optimize`` works on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn

from . import constructors, portrait
from .capture import Capture

Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]


def capture_one(folder: Path, module: nn.Module, inputs: Any, init: Optional[Arguments], gradients: bool) -> Path:
    """Call a module once and return the folder of its capture; a manifest says what could not be captured.

    The module is left as it was: its buffers and the random numbers of the program are put back.

    Args:
        folder: Where the capture is written.
        module: The module.
        inputs: A tensor, a tuple or list of forward's arguments, or a dict of its keywords.
        init: What the module was constructed with, where that is known.
        gradients: Whether it is called with gradients on.
    """
    inner, (args, kwargs) = portrait.unwrapped(module), arguments(inputs)
    if init is not None:
        constructors.note(inner, *init)
    capture = Capture(folder, None, sys.maxsize, copy_weights=True)
    kept = {name: buffer.detach().clone() for name, buffer in inner.named_buffers()}
    cuda: Any = torch.cuda
    devices = [cuda.current_device()] if cuda.is_initialized() else []
    with torch.random.fork_rng(devices), torch.set_grad_enabled(gradients):
        capture.before(inner, args, kwargs)
        capture.after(inner, inner(*args, **kwargs))
    with torch.no_grad():
        for name, buffer in inner.named_buffers():
            if name in kept and kept[name].shape == buffer.shape:
                buffer.copy_(kept[name])
    written = capture.finish([portrait.class_key(inner)])
    return next(iter(written.values()))


def arguments(inputs: Any) -> Arguments:
    """Return example inputs as the arguments of a call."""
    if isinstance(inputs, dict):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def constructed_with(module: nn.Module, init: str) -> Optional[Arguments]:
    """Return constructor arguments: those written between parentheses, else those noted; None where nobody knows them."""
    if init:
        found: Arguments = eval(f"(lambda *a, **k: (a, k))({init}\n)", {"torch": torch})  # noqa: S307  # the caller's own
        return found
    return constructors.arguments_of(portrait.unwrapped(module))


def device_of(module: nn.Module, inputs: Any) -> str:
    """Return the device of a module's state, or of its inputs where it has none."""
    args, kwargs = arguments(inputs)
    tensors: List[Any] = [*module.parameters(), *module.buffers(), *args, *kwargs.values()]
    return str(next((each.device for each in tensors if isinstance(each, torch.Tensor)), "cpu"))
