"""Recurrent: two layers of LSTM, output and last state."""

import torch
from torch import nn

SMALL = False
BATCH, LENGTH, WIDTH = (3, 8, 24) if SMALL else (32, 128, 256)


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
