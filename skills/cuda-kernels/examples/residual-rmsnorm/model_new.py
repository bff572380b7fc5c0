import torch
from kernels import residual_rmsnorm
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normed, total = torch.empty_like(hidden), torch.empty_like(residual)
        tokens, size = hidden.shape
        residual_rmsnorm(hidden, residual, self.weight, normed, total, tokens, size, self.eps)
        return normed, total
