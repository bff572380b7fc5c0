# Copyright 2025 HuggingFace Inc. Licensed under the Apache License, Version 2.0.
# Taken from diffusers/models/activations.py.
import torch
import torch.nn.functional as F
from torch import nn
from diffusers.utils.import_utils import is_torch_version

from .activations_kernels import geglu


class GEGLU(nn.Module):
    r"""
    A [variant](https://huggingface.co/papers/2002.05202) of the gated linear unit activation function.

    Parameters:
        dim_in (`int`): The number of channels in the input.
        dim_out (`int`): The number of channels in the output.
        bias (`bool`, defaults to True): Whether to use a bias in the linear layer.
    """

    def __init__(self, dim_in: int, dim_out: int, bias: bool = True):
        super().__init__()
        self.proj = nn.Linear(dim_in, dim_out * 2, bias=bias)

    def gelu(self, gate: torch.Tensor) -> torch.Tensor:
        if gate.device.type == "mps" and is_torch_version("<", "2.0.0"):
            # fp16 gelu not supported on mps before torch 2.0
            return F.gelu(gate.to(dtype=torch.float32)).to(dtype=gate.dtype)
        return F.gelu(gate)

    def forward(self, hidden_states, *args, **kwargs) -> torch.Tensor:
        projected = self.proj(hidden_states)
        size = projected.shape[-1] // 2
        out = projected.new_empty((*projected.shape[:-1], size))
        geglu(projected, out, out.numel() // size, size)
        return out
