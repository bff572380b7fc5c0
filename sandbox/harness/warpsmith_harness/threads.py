"""How many threads torch's CPU operators use, and when."""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch


@contextlib.contextmanager
def all_threads(count: int) -> Iterator[None]:
    """Run what is timed, or looked at as if it were, on ``count`` threads; the number is as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
