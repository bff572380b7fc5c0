"""The front of a ConvNeXt block: depthwise 7x7 convolution, then LayerNorm over the channels.

The operations of ``Block.forward`` in facebookresearch/ConvNeXt (MIT) up to the first pointwise layer, with the shape
of ConvNeXt-T's first stage on 64 images of 224x224.
"""

import torch
from torch import nn


class Model(nn.Module):
    """``x`` (N, C, H, W) to normalised features (N, H, W, C)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dwconv(x)
        x = x.permute(0, 2, 3, 1)
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(64, 96, 56, 56)]


def get_init_inputs() -> list[int]:
    return [96]
