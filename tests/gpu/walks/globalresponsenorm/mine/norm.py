# Copyright 2025 HuggingFace Inc.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Taken from diffusers/models/normalization.py.
import torch
import torch.nn as nn

from .norm_kernels import global_response_norm


class GlobalResponseNorm(nn.Module):
    r"""
    Global response normalization as introduced in ConvNeXt-v2 (https://huggingface.co/papers/2301.00808).

    Args:
        dim (`int`): Number of dimensions to use for the `gamma` and `beta`.
    """

    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, dim))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x) -> torch.Tensor:
        out = torch.empty_like(x)
        images, height, width, channels = x.shape
        scale = torch.empty(images, channels, dtype=x.dtype, device=x.device)
        global_response_norm(x, self.gamma, self.beta, scale, out, images, height * width, channels)
        return out
