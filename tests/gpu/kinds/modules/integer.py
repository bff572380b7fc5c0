"""Integers: bits shuffled and counted, no rounding anywhere."""

import torch
from torch import nn

SMALL = False
COUNT = 4096 if SMALL else 16 * 1024 * 1024


class Model(nn.Module):
    def forward(self, x, salt):
        mixed = (x ^ (x >> 3)) * 31 + salt
        return mixed, (mixed & 1).sum(dtype=torch.int64), mixed.to(torch.uint8)


def get_inputs():
    return [
        torch.randint(0, 1 << 20, (COUNT,), dtype=torch.int32),
        torch.randint(0, 1 << 10, (COUNT,), dtype=torch.int32),
    ]


def get_init_inputs():
    return []
