import torch
from kernels import dwconv7_norm
from torch import nn


class ModelNew(nn.Module):
    """Depthwise 7x7 convolution and LayerNorm over the channels in one pass, from NCHW to NHWC."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        conv, norm = self.dwconv, self.norm
        out = torch.empty((n, h, w, c), device=x.device, dtype=x.dtype)
        dwconv7_norm(x, conv.weight, conv.bias, norm.weight, norm.bias, out, n, c, h, w, norm.eps)
        return out
