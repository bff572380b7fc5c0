"""RMSNorm that is trained, as in Llama (after transformers, Apache-2.0)."""

import torch
from torch import nn


class Model(nn.Module):
    """``x`` (tokens, size) to its rows divided by their root mean square, times ``weight``."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(2048, 1024)]


def get_init_inputs() -> list[int | float]:
    return [1024, 1e-6]
