"""How the losses of single actions become one number that does not depend on how the batch was cut.

Each action gets a weight that follows from the whole batch, over all rows and all processes; a loss is then the sum of
weight times loss, wherever its parts are computed, and gradients are summed.
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor


class Mean(StrEnum):
    """What is averaged."""

    EPISODE = "episode"
    """Over the actions of each episode, then over episodes: CUDA Agent's 1/T."""

    TOKEN = "token"  # noqa: S105
    """Over all actions of all episodes: DAPO, VAPO."""


def token_weights(lengths: Tensor, mean: Mean) -> Tensor:
    """Return the weight of each action of a whole batch, episode by episode; they add up to 1.

    Args:
        lengths: int64, (episodes,); how many actions each has, all its segments together, in whichever row or process.
        mean: What is averaged.

    Returns:
        float32, (actions,).
    """
    if mean is Mean.TOKEN:
        actions = int(lengths.sum())
        return torch.full((actions,), 1.0 / actions, device=lengths.device)
    return torch.repeat_interleave(1.0 / (len(lengths) * lengths.float()), lengths)
