import torch
from kernels import rmsnorm, rmsnorm_backward
from torch import nn
from torch.autograd.function import once_differentiable

SLICES = 256


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        tokens, size = x.shape
        out, scales = torch.empty_like(x), torch.empty(tokens, dtype=x.dtype, device=x.device)
        rmsnorm(x, weight, out, scales, tokens, size, eps)
        ctx.save_for_backward(x, weight, scales)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight, scales = ctx.saved_tensors
        tokens, size = x.shape
        slices = min(tokens, SLICES)
        grad_x, grad_weight = torch.empty_like(x), torch.empty_like(weight)
        partial = torch.empty(slices, size, dtype=x.dtype, device=x.device)
        rmsnorm_backward(grad, x, weight, scales, grad_x, partial, grad_weight, tokens, size, slices)
        return grad_x, grad_weight, None


class ModelNew(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return RMSNorm.apply(x, self.weight, self.eps)
