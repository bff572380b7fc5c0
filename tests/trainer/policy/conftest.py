"""A tiny policy on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trainer.policy.tiny import write_tiny_policy


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_policy(tmp_path_factory.mktemp("tiny"), vocabulary=512)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small spend their time on threads that wait for each other, as soon as there are several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
