"""Complex views: rotary positions, as pairs of reals seen as complex numbers; conjugates come in and go out unwritten."""

import torch
from torch import nn

SMALL = False
BATCH, LENGTH, WIDTH = (2, 16, 32) if SMALL else (16, 1024, 512)


class Model(nn.Module):
    def forward(self, x, angle, phase):
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2), (turned * phase).conj(), turned.conj().imag


def get_inputs():
    return [
        torch.randn(BATCH, LENGTH, WIDTH),
        torch.randn(LENGTH, WIDTH // 2),
        torch.randn(WIDTH // 2, dtype=torch.cfloat).conj(),
    ]


def get_init_inputs():
    return []
