import torch
from kernels import bn_relu_maxpool
from torch import nn


class ModelNew(nn.Module):
    """BatchNorm with running statistics, ReLU and 3x3 max-pooling with stride 2, in one pass over the input."""

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(planes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        out = torch.empty((n, c, (h + 1) // 2, (w + 1) // 2), device=x.device, dtype=x.dtype)
        bn = self.bn1
        bn_relu_maxpool(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, n, c, h, w, bn.eps)
        return out
