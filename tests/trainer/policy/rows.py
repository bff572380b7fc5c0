"""Random segments, and a tiny policy that is not at its random start, where all values are alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from trainer.data.episode import Segment
from trainer.policy.model import PolicyModel

VOCABULARY = 400


def segment(length: int, seed: int, share: float = 0.4) -> Segment:
    """A segment of random ids, about ``share`` of which are actions; its second token is one, its last is none."""
    rng = np.random.default_rng(seed)
    action = rng.random(length) < share
    action[[0, -1]] = False
    action[1] = True
    return Segment(
        ids=rng.integers(0, VOCABULARY, length, dtype=np.int32),
        action=action,
        logprobs=np.full(length, np.nan, np.float32),
        turn=action.astype(np.int32),
    )


def stir(policy: PolicyModel, seed: int = 0) -> None:
    """Give adapters and heads that begin at zero something to say."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, value in policy.named_parameters():
            if "lora_B" in name or "value_head" in name:
                value.normal_(std=0.1)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
