import torch
import torch.nn as nn
from kernels import bias_gelu_scale


class ModelNew(nn.Module):
    def __init__(self, features: int, scale: float):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = scale

    def forward(self, x):
        out = torch.empty_like(x)
        bias_gelu_scale(x, self.bias, out, x.numel(), x.shape[-1], self.scale)
        return out
