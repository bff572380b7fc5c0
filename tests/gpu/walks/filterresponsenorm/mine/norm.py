# Copyright 2021 Ross Wightman. Licensed under the Apache License, Version 2.0.
# Taken from timm/layers/filter_response_norm.py.
import torch
import torch.nn as nn
from timm.layers.trace_utils import _assert

from .norm_kernels import filter_response_norm


class FilterResponseNormTlu2d(nn.Module):
    def __init__(
            self,
            num_features: int,
            apply_act: bool = True,
            eps: float = 1e-5,
            rms: bool = True,
            device=None,
            dtype=None,
            **_,
    ):
        dd = {'device': device, 'dtype': dtype}
        super().__init__()
        self.apply_act = apply_act  # apply activation (non-linearity)
        self.rms = rms
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(num_features, **dd))
        self.bias = nn.Parameter(torch.empty(num_features, **dd))
        self.tau = nn.Parameter(torch.empty(num_features, **dd)) if apply_act else None

        self.reset_parameters()

    def reset_parameters(self):
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        if self.tau is not None:
            nn.init.zeros_(self.tau)

    def forward(self, x):
        _assert(x.dim() == 4, 'expected 4D input')
        images, channels, height, width = x.shape
        out = torch.empty_like(x)
        filter_response_norm(
            x, self.weight, self.bias, self.tau, out, images, channels, height * width, self.eps
        )
        return out
