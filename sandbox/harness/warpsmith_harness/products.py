"""Lets torch's own matrix library tell, on standard output, which products it does: whoever asks, and however it was found.

What watches operators does not see a function that a kernel file has looked up in a library. oneMKL, which torch has on
x86-64, tells of its calls where it is asked to (https://pytorch.org/docs/stable/backends.html#torch.backends.mkl.verbose).
Which products a build of torch leaves to it differs, so that this is one net more, and none that is proven at start-up.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Iterator

import torch

_mkl: Any = torch.backends.mkl


@functools.lru_cache(maxsize=None)
def can_tell() -> bool:
    """Return whether torch's matrix library tells of its calls."""
    try:
        with _mkl.verbose(_mkl.VERBOSE_ON):
            return bool(_mkl.is_available())
    except (AssertionError, AttributeError):
        return False


@contextlib.contextmanager
def telling_products() -> Iterator[None]:
    """Have a line printed for each product meanwhile, where that library can."""
    if not can_tell():
        yield
        return
    with _mkl.verbose(_mkl.VERBOSE_ON):
        yield
    ctypes.CDLL(None).fflush(None)
