"""Building blocks of LeafNet, after ResNet in torchvision (BSD-3-Clause)."""

import torch
from torch import nn

from .layers import conv1x1, conv3x3


class StemPool(nn.Module):
    """What follows ResNet's first convolution: BatchNorm, ReLU and max-pooling, halving the resolution."""

    def __init__(self, planes: int = 64) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features (N, C, H, W) to (N, C, H / 2, W / 2)."""
        x = self.bn1(x)
        x = self.relu(x)
        return self.maxpool(x)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, in_planes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv3x3(in_planes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_planes != planes:
            self.downsample = nn.Sequential(conv1x1(in_planes, planes, stride), nn.BatchNorm2d(planes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features (N, C, H, W) to (N, planes, H / stride, W / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        identity = x if self.downsample is None else self.downsample(x)
        return self.relu(out + identity)


def get_inputs() -> list[torch.Tensor]:
    """What StemPool sees for two photographs of 224x224."""
    return [torch.randn(2, 64, 112, 112)]
