"""Depthwise 3x3 convolution, BatchNorm and ReLU6, as in MobileNetV2 (after torchvision, BSD-3-Clause)."""

import torch
from torch import nn


class Model(nn.Module):
    """``x`` (N, C, H, W) to the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.act = nn.ReLU6(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(4, 144, 56, 56)]


def get_init_inputs() -> list[int]:
    return [144]
