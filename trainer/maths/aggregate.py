"""How the losses of single actions become one number that does not depend on how the batch was cut.

Each action gets a weight that follows from the whole batch, over all rows and all processes; a loss is then the sum of
weight times loss, wherever its parts are computed, and gradients are summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.distributed as dist
from torch import Tensor


class Mean(StrEnum):
    """What is averaged."""

    EPISODE = "episode"
    """Over the actions of each episode, then over episodes: CUDA Agent's 1/T."""

    TOKEN = "token"  # noqa: S105
    """Over all actions of all episodes: DAPO, VAPO."""


@dataclass(frozen=True)
class Totals:
    """What a whole batch holds."""

    episodes: int
    actions: int

    @classmethod
    def of(cls, lengths: Tensor) -> Totals:
        """Count episodes by how many actions each has, (episodes,)."""
        return cls(len(lengths), int(lengths.sum()))

    def over_processes(self, device: torch.device | str = "cpu") -> Totals:
        """Add up what each process holds; the same where there is only one."""
        if not dist.is_initialized():
            return self
        counts = torch.tensor([self.episodes, self.actions], dtype=torch.int64, device=device)
        dist.all_reduce(counts)
        return Totals(int(counts[0]), int(counts[1]))


def token_weights(lengths: Tensor, mean: Mean, totals: Totals | None = None) -> Tensor:
    """Return the weight of each action, episode by episode; those of a whole batch add up to 1.

    Args:
        lengths: int64, (episodes,); how many actions each has, all its segments together.
        mean: What is averaged.
        totals: What the whole batch holds, where these episodes are a part of it.

    Returns:
        float32, (actions,).
    """
    whole = totals or Totals.of(lengths)
    if mean is Mean.TOKEN:
        return torch.full((int(lengths.sum()),), 1.0 / whole.actions, device=lengths.device)
    return torch.repeat_interleave(1.0 / (whole.episodes * lengths.float()), lengths)
