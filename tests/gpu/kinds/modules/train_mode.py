"""Train mode: batch norm that uses the batch and moves its running statistics."""

import torch
from torch import nn

SMALL = False
BATCH, CHANNELS, SIZE = (4, 6, 10) if SMALL else (64, 64, 56)


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
