# Copyright 2022 Ross Wightman. Licensed under the Apache License, Version 2.0.
# Taken from timm/layers/norm.py.
import torch
import torch.nn as nn
from timm.layers.fast_norm import is_fast_norm

from .norm_kernels import layer_norm_2d, layer_norm_rows


class LayerNorm2d(nn.LayerNorm):
    """ LayerNorm for channels of '2D' spatial NCHW tensors """
    _fast_norm: torch.jit.Final[bool]

    def __init__(
            self,
            num_channels: int,
            eps: float = 1e-6,
            affine: bool = True,
            **kwargs,
    ):
        super().__init__(num_channels, eps=eps, elementwise_affine=affine, **kwargs)
        self._fast_norm = is_fast_norm()  # can't script unless we have these flags here (no globals)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images, channels, height, width = x.shape
        out = torch.empty_like(x, memory_format=torch.channels_last)
        rows = out.permute(0, 2, 3, 1)
        if x.is_contiguous():
            layer_norm_2d(x, self.weight, self.bias, rows, images, channels, height * width, self.eps)
        else:
            layer_norm_rows(
                x.permute(0, 2, 3, 1), self.weight, self.bias, rows, images * height * width, channels, self.eps
            )
        return out
