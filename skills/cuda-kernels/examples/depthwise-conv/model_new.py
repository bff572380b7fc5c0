import torch
from kernels import depthwise3_bn_relu6
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        bn = self.bn
        out = torch.empty_like(x)
        depthwise3_bn_relu6(
            x, self.conv.weight, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, n, c, h, w, bn.eps
        )
        return out
