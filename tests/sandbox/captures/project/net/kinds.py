"""Modules of every kind that a developer's project may hold."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import weight_norm
from torch.nn.utils.parametrizations import spectral_norm


class Block(nn.Module):
    def __init__(self, config, bias=True):
        super().__init__()
        self.proj = nn.Linear(config.width, config.width, bias=bias)
        self.drop = nn.Dropout(0.5)
        self.scale = config.scale

    def forward(self, x, mask=None, gain=2.0):
        y = self.drop(torch.relu(self.proj(x)) * self.scale * gain)
        return y if mask is None else y.masked_fill(mask, 0.0)


class InPlace(nn.Module):
    def forward(self, x):
        return x.mul_(2.0).add_(1.0)


class Frozen(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.lin = nn.Linear(width, width)

    def forward(self, x):
        return self.lin(self.norm(x))


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        return self.conv(x).relu()


class Wide(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


class Parametrized(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        return self.second(self.first(x))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 20, bias=False)

    def forward(self, tokens):
        return self.head(self.table(tokens))


class Lazy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.LazyLinear(width)

    def forward(self, x):
        return self.lin(x).tanh()


class Compiled(Block):
    pass


class Parallel(Block):
    pass


class Copied(Block):
    pass


class Unpickled(Block):
    pass


class Grown(Block):
    pass


class Edges(nn.Module):
    def forward(self, x, edges):
        return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


class Twice(nn.Module):
    def forward(self, query, key):
        return query * key.sin()


class Odd(nn.Module):
    def forward(self, x, cache=None):
        return x * 2 if cache is None else x


class OddBack(nn.Module):
    def forward(self, x):
        return {"out": x, "why": object()}


class OwnTensor(torch.Tensor):
    pass


class OwnKind(Odd):
    pass


def parametrized():
    made = Parametrized()
    spectral_norm(made.first)
    weight_norm(made.second)
    return made
