"""Convolution, batch norm in eval mode, activation, pooling."""

import torch
from torch import nn

SMALL = False
BATCH, CHANNELS, SIZE = (2, 8, 16) if SMALL else (32, 64, 56)


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
