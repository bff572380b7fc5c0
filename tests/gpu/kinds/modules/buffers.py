"""Buffers: one that is saved, one that is not, and one of booleans."""

import torch
from torch import nn

SMALL = False
LENGTH, WIDTH = (32, 48) if SMALL else (4096, 1024)


class Model(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("table", torch.randn(length, width))
        self.register_buffer("slopes", torch.linspace(0.5, 2.0, width), persistent=False)
        self.register_buffer("kept", torch.arange(length) % 3 != 0)
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.where(self.kept.unsqueeze(1), x + self.table * self.slopes, x * self.weight)


def get_inputs():
    return [torch.randn(LENGTH, WIDTH)]


def get_init_inputs():
    return [LENGTH, WIDTH]
