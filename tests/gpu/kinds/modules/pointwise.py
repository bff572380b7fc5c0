"""Pointwise: a gated sum, broadcast over rows."""

import torch
from torch import nn

SMALL = False
ROWS, COLUMNS = (64, 512) if SMALL else (8192, 4096)


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, x, gate):
        return (x * torch.sigmoid(gate) + self.bias).clamp(min=-1.5)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
