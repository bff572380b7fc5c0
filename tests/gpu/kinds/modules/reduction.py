"""Reduction: everything to one number."""

import torch
from torch import nn

SMALL = False
ROWS, COLUMNS = (64, 512) if SMALL else (8192, 2048)


class Model(nn.Module):
    def forward(self, prediction, target):
        return nn.functional.smooth_l1_loss(prediction, target) + torch.logsumexp(prediction, -1).mean()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
