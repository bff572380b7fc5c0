import torch
from kernels import groupnorm_silu
from torch import nn


class ModelNew(nn.Module):
    """GroupNorm and SiLU in one pass: a cluster of blocks keeps a whole group in its registers."""

    def __init__(self, in_channels: int, groups: int, eps: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(
            num_groups=groups, num_channels=in_channels, eps=eps, affine=True, dtype=torch.bfloat16
        )

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        n, c, h, w = hidden_states.shape
        norm = self.norm1
        out = torch.empty_like(hidden_states)
        groupnorm_silu(hidden_states, norm.weight, norm.bias, out, n, c, h * w, norm.num_groups, norm.eps)
        return out
