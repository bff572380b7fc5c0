"""Complex views: rotary positions, as pairs of reals seen as complex numbers."""

import torch
from torch import nn

SMALL = False
BATCH, LENGTH, WIDTH = (2, 16, 32) if SMALL else (16, 1024, 512)


class Model(nn.Module):
    def forward(self, x, angle):
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2), turned.conj()


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(LENGTH, WIDTH // 2)]


def get_init_inputs():
    return []
