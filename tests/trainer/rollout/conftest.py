"""One tiny policy for all tests of rollouts."""

from __future__ import annotations

import pytest
import torch

from trainer.policy.model import load_policy
from trainer.policy.tiny import write_tiny_policy


@pytest.fixture(scope="session")
def policy(tmp_path_factory):
    torch.set_num_threads(2)
    return load_policy(write_tiny_policy(tmp_path_factory.mktemp("policy"), vocabulary=600))
