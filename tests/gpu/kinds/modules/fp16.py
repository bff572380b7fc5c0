"""float16: group norm and activation, cast by the module's own file."""

import torch
from torch import nn

SMALL = False
BATCH, CHANNELS, SIZE = (2, 16, 8) if SMALL else (16, 128, 64)


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels).half()

    def forward(self, x):
        return nn.functional.silu(self.norm(x)) * torch.tensor(0.5, dtype=torch.float16, device=x.device)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE, dtype=torch.float16)]


def get_init_inputs():
    return [CHANNELS]
