"""bfloat16: a gated feed-forward block, cast by the task."""

import torch
from torch import nn

SMALL = False
ROWS, WIDTH = (32, 128) if SMALL else (4096, 1024)


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
