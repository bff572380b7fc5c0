"""Causal attention with its projections."""

import torch
from torch import nn

SMALL = False
BATCH, LENGTH, WIDTH, HEADS = (2, 32, 64, 4) if SMALL else (8, 512, 768, 12)


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.project_in(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH, HEADS]
