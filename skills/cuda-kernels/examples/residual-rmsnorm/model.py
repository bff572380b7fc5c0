"""Residual sum and RMSNorm, as between the layers of Llama (after transformers, Apache-2.0)."""

import torch
from torch import nn


class Model(nn.Module):
    """``hidden`` and ``residual`` (tokens, size) to the normalised sum and the sum itself."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = residual + hidden
        variance = residual.pow(2).mean(-1, keepdim=True)
        return self.weight * (residual * torch.rsqrt(variance + self.eps)), residual


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(2048, 1024), torch.randn(2048, 1024)]


def get_init_inputs() -> list[int | float]:
    return [1024, 1e-6]
