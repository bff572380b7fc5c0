"""Small pieces the blocks are made of."""

from torch import nn


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size, without bias because a BatchNorm follows."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1x1 convolution for shortcuts."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)
