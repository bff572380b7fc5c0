"""Embedding: tokens and positions, then a bag of words."""

import torch
from torch import nn

SMALL = False
WORDS, WIDTH, BATCH, LENGTH = (100, 32, 4, 16) if SMALL else (32000, 768, 16, 512)


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.tokens = nn.Embedding(words, width, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(LENGTH, width))
        self.bag = nn.EmbeddingBag(words, width, mode="mean")

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions + self.bag(tokens).unsqueeze(1)


def get_inputs():
    return [torch.randint(0, WORDS, (BATCH, LENGTH))]


def get_init_inputs():
    return [WORDS, WIDTH]
