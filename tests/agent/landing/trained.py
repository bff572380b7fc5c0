"""A module that is trained, and a candidate that brings its own backward, as the judge would have accepted it."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.landing import FileChange, VerifiedInputs, plan
from sandbox.task import TaskSpec
from tests.agent.landing.example import verdict

ORIGINAL = """\
import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width, dtype=torch.float64))

    def forward(self, x):
        return x * x * self.weight
"""

CANDIDATE = ORIGINAL.replace(
    "\n\nclass Gain",
    """
from .gains_kernels import gain, gain_backward


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        out = torch.empty_like(x)
        gain(x, weight, out, x.numel(), weight.numel())
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        dx, dweight = torch.empty_like(x), torch.zeros_like(weight)
        gain_backward(x, weight, grad, dx, dweight, x.numel(), weight.numel())
        return dx, dweight


class Gain""",
).replace("return x * x * self.weight", "return Fused.apply(x, self.weight)")

KERNEL = """\
#include <cstdint>

extern "C" int gain(const double* x, const double* weight, double* out, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * x[i] * weight[i % width];
    return 0;
}

extern "C" int gain_backward(const double* x, const double* weight, const double* grad, double* dx, double* dweight,
                             int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; ++i) {
        dx[i] = 2 * x[i] * weight[i % width] * grad[i];
        dweight[i % width] += x[i] * x[i] * grad[i];
    }
    return 0;
}
"""

CUDA_KERNEL = """\
#include <cstdint>

__global__ void gain_kernel(const double* x, const double* weight, double* out, int64_t n, int64_t width) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * x[i] * weight[i % width];
}

__global__ void gain_backward_kernel(const double* x, const double* weight, const double* grad, double* dx,
                                     double* dweight, int64_t n, int64_t width) {
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    double sum = 0;
    for (int64_t i = column; i < n; i += width) {
        dx[i] = 2 * x[i] * weight[column] * grad[i];
        sum += x[i] * x[i] * grad[i];
    }
    dweight[column] = sum;
}

extern "C" int gain(const double* x, const double* weight, double* out, int64_t n, int64_t width, cudaStream_t stream) {
    gain_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, weight, out, n, width);
    return (int)cudaGetLastError();
}

extern "C" int gain_backward(const double* x, const double* weight, const double* grad, double* dx, double* dweight,
                             int64_t n, int64_t width, cudaStream_t stream) {
    gain_backward_kernel<<<(width + 255) / 256, 256, 0, stream>>>(x, weight, grad, dx, dweight, n, width);
    return (int)cudaGetLastError();
}
"""

SIGNATURE = (
    "x: float64 [4, 8] contiguous",
    "weight: float64 [8] contiguous",
    "output: float64 [4, 8] contiguous",
)

CHECKS = """
from shop import gains_kernels
from shop.gains import Gain

m = Gain(8)
x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)

def gradients_are_right(module, count=1):
    m.zero_grad()
    x.grad = None
    module(x).sum().backward()
    torch.testing.assert_close(m.weight.grad, (x * x).sum(0) * count)
    torch.testing.assert_close(x.grad, 2 * x * m.weight * count)
"""


def make_project(root: Path) -> TaskSpec:
    """Write a package ``shop`` with the module; returns the task."""
    (root / "shop").mkdir(parents=True)
    (root / "shop/__init__.py").write_text("")
    (root / "shop/gains.py").write_text(ORIGINAL)
    return TaskSpec(
        kind="module",
        path=root / "shop/gains.py",
        class_name="Gain",
        module_name="shop.gains",
        root=root,
        python=Path(sys.executable),
        init="8",
        inputs="torch.randn(4, 8, dtype=torch.float64)",
        training=True,
        gradients=True,
    )


def planned(spec: TaskSpec, sm: str | None = None) -> list[FileChange]:
    """Return what lands; on a GPU for its ``sm``."""
    kernel = {"kernels/gain.cu": CUDA_KERNEL.encode()} if sm else {"kernels/gain.cpp": KERNEL.encode()}
    original = {"gains.py": ORIGINAL.encode()}
    verified = VerifiedInputs.of(spec, SIGNATURE, ORIGINAL.encode())
    return plan(spec, original, {"gains.py": CANDIDATE.encode(), **kernel}, verdict(sm=sm), verified)
