"""Advantages with mean 0 and variance 1 over the actions of a whole batch, never of a part of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

EPSILON = 1e-8


@dataclass(frozen=True)
class Moments:
    """Mean and unbiased variance of the values of a whole batch; the variance of a single value is 0."""

    mean: float
    variance: float

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        """Take the moments of values of any shape, at least one."""
        exact = values.detach().double()
        return cls(float(exact.mean()), float(exact.var()) if exact.numel() > 1 else 0.0)


def whiten(values: Tensor, moments: Moments) -> Tensor:
    """Return (values - mean) / sqrt(variance + 1e-8), with the moments of the whole batch that the values are a part of."""
    whitened: Tensor = ((values.double() - moments.mean) / (moments.variance + EPSILON) ** 0.5).to(values.dtype)
    return whitened
