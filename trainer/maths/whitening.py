"""Advantages with mean 0 and variance 1 over the actions of a whole batch, never of a part of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

EPSILON = 1e-8


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of what a batch, or a part of it, holds."""

    count: float
    mean: float
    squares: float

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        """Take the moments of values of any shape; none have a count of 0."""
        exact = values.detach().double()
        if not exact.numel():
            return cls(0.0, 0.0, 0.0)
        mean = exact.mean()
        return cls(float(exact.numel()), float(mean), float(((exact - mean) ** 2).sum()))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        if not count:
            return self
        apart = other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * other.count / count,
            self.squares + other.squares + apart**2 * self.count * other.count / count,
        )

    def over_processes(self, device: torch.device | str = "cpu") -> Moments:
        """Join the moments of all processes; the same where there is only one."""
        if not dist.is_initialized():
            return self
        own = torch.tensor([self.count, self.mean, self.squares], dtype=torch.float64, device=device)
        gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, own)
        return sum((Moments(*one.tolist()) for one in gathered), Moments(0.0, 0.0, 0.0))

    @property
    def variance(self) -> float:
        """The unbiased variance; 0 where there are fewer than two values."""
        return self.squares / (self.count - 1) if self.count > 1 else 0.0


def whiten(values: Tensor, moments: Moments) -> Tensor:
    """Return (values - mean) / sqrt(variance + 1e-8), with the moments of the whole batch that the values are a part of."""
    whitened: Tensor = ((values.double() - moments.mean) / (moments.variance + EPSILON) ** 0.5).to(values.dtype)
    return whitened
