"""The stem of a ResNet after its first convolution: BatchNorm, ReLU and max-pooling.

The operations of ``ResNet._forward_impl`` in pytorch/vision (BSD-3-Clause) between ``conv1`` and ``layer1``, with the
shape of 32 images of 224x224.
"""

import torch
from torch import nn


class Model(nn.Module):
    """``x`` (N, C, H, W) to (N, C, H / 2, W / 2)."""

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(x)
        x = self.relu(x)
        return self.maxpool(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(32, 64, 112, 112)]


def get_init_inputs() -> list[int]:
    return [64]
