"""Depthwise and transposed convolutions, channels last."""

import torch
from torch import nn

SMALL = False
BATCH, CHANNELS, SIZE = (2, 8, 12) if SMALL else (16, 96, 56)


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.spread = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.grow = nn.ConvTranspose2d(channels, channels // 2, 2, stride=2)

    def forward(self, x):
        return self.grow(nn.functional.silu(self.spread(x)))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE).to(memory_format=torch.channels_last)]


def get_init_inputs():
    return [CHANNELS]
