"""What surrounds a call: whether gradients are recorded, and autocast, as they were in the developer's own run."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Dict, Iterator

import torch

GRAD_MODES: Dict[str, Callable[[], ContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "grad": torch.enable_grad,
    "inference": torch.inference_mode,
}


@contextlib.contextmanager
def surroundings(spec: Dict[str, Any], *, recording: bool = False) -> Iterator[None]:
    """Enter what a task's calls are surrounded by; with ``recording`` gradients are recorded whatever the task says."""
    mode = torch.enable_grad if recording else GRAD_MODES[spec.get("grad_mode") or "no_grad"]
    with mode(), autocast(spec):
        yield


def autocast(spec: Dict[str, Any]) -> ContextManager[Any]:
    """Return the task's autocast, which does nothing where it has none."""
    if not spec.get("autocast"):
        return contextlib.nullcontext()
    # Its cache holds cast weights until it is left: they would outlive the state that the judge changes between calls.
    device = torch.device(spec["device"]).type
    return torch.autocast(device, dtype=getattr(torch, spec["autocast"]), cache_enabled=False)
