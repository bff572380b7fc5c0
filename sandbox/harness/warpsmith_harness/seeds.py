"""Random number generators: a fixed seed for construction, the system's entropy for everything that is drawn."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from typing import Iterator

import torch

CONSTRUCTION_SEED = 20240607


def entropy() -> int:
    """Return a seed that nobody can predict."""
    return int.from_bytes(os.urandom(8), "little") >> 1


@contextlib.contextmanager
def fixed_seed(device: torch.device) -> Iterator[None]:
    """Construct under one seed, the same in every process; the generators are as before afterwards."""
    with _seeded(CONSTRUCTION_SEED, device):
        yield


@contextlib.contextmanager
def fresh_seed(device: torch.device) -> Iterator[None]:
    """Draw from the operating system's entropy; the generators are as before afterwards."""
    with _seeded(entropy(), device):
        yield


def generator(device: torch.device) -> torch.Generator:
    """Return a generator of its own for a device, seeded by entropy."""
    made = torch.Generator(device=device)
    made.manual_seed(entropy())
    return made


@contextlib.contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    python_state, numpy_state = random.getstate(), numpy.random.get_state() if numpy else None
    # A process that has not touched CUDA has no generator there to restore, and must not touch it for one.
    touched = torch.cuda.is_initialized()
    devices = [device.index or 0] if device.type == "cuda" and touched else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy:
                numpy.random.set_state(numpy_state)
