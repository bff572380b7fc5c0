import torch
from kernels import swiglu
from torch import nn


class ModelNew(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(gate)
        swiglu(gate, up, out, gate.numel())
        return out
