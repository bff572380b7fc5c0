"""The scalars that the program calls ``backward`` on, read without ever waiting for the device."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch

_cuda: Any = torch.cuda
_MOST = 2000


class Losses:
    """Values of the loss in the order they came, as far as the device has come by them."""

    def __init__(self) -> None:
        self.values: List[float] = []
        self._coming: List[Tuple[torch.Tensor, Any]] = []
        self._noted = 0

    def note(self, tensors: Any) -> None:
        """Note the scalar that ``backward`` was called with, if it is one."""
        tensor = tensors[0] if isinstance(tensors, (list, tuple)) and len(tensors) == 1 else tensors
        if not isinstance(tensor, torch.Tensor) or tensor.numel() != 1 or not tensor.is_floating_point():
            return
        if self._noted >= _MOST or tensor.device.type not in ("cpu", "cuda"):
            return
        if tensor.device.type == "cuda" and _cuda.is_current_stream_capturing():
            return
        self._noted += 1
        with torch.no_grad():
            value = tensor.detach().reshape(1).float()
            if tensor.device.type == "cpu":
                self._coming.append((value.clone(), None))
                return
            landing = torch.empty(1, dtype=torch.float32, pin_memory=True)
            landing.copy_(value, non_blocking=True)
            event = _cuda.Event()
            event.record(_cuda.current_stream(tensor.device))
            self._coming.append((landing, event))

    def read(self) -> List[float]:
        """Return what has come by now."""
        while self._coming and (self._coming[0][1] is None or self._coming[0][1].query()):
            self.values.append(float(self._coming.pop(0)[0][0]))
        return self.values
