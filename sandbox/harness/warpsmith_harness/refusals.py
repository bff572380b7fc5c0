"""Tells a candidate that refuses an input's layout from one that fails on it."""

from __future__ import annotations

import linecache
import re
import traceback

import torch

from warpsmith_harness.kernels import Refused

_WORDS = re.compile(r"contiguous|stride|align|data_ptr|layout|memory.format", re.IGNORECASE)
_OF_THE_DEVICE = re.compile(r"CUDA error|cudaError|illegal memory")
_POLITE = (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError)


def is_refusal(error: Exception, device: torch.device) -> bool:
    """Whether an error is a check that said no before anything ran, and the device is still well.

    That is what the binding raises for an argument that does not fit, and for a launcher's own error code; beside these,
    a check in the candidate's code or in torch that speaks of the layout. An error of the device is never one.
    """
    if _OF_THE_DEVICE.search(str(error)) and not isinstance(error, Refused):
        return False
    if not isinstance(error, Refused) and not (isinstance(error, _POLITE) and _WORDS.search(f"{error} {_line(error)}")):
        return False
    if device.type == "cuda":
        try:
            torch.cuda.synchronize(device)
        except RuntimeError:
            return False
    return True


def _line(error: Exception) -> str:
    """Return the source line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return linecache.getline(frames[-1].filename, frames[-1].lineno or 0) if frames else ""
