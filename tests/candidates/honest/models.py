"""What many candidates share: a Python half that allocates, calls one kernel and returns, and a plain kernel."""

from __future__ import annotations

SCALE_ADD = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        out = torch.empty_like(x)
        scale_add(x, self.weight, y, out, x.numel() // x.shape[-1], x.shape[-1])
        return out
"""
"""``scale_add(x, weight, y, out, rows, columns)``."""

LAYER_NORM = """
import torch
import torch.nn as nn
from kernels import layer_norm

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        y = torch.empty_like(x)
        rows, cols = x.shape
        layer_norm(x, self.norm.weight, self.norm.bias, y, rows, cols, self.norm.eps)
        return y
"""
"""``layer_norm(x, weight, bias, y, rows, cols, eps)``."""

SOFTMAX = """
import torch
import torch.nn as nn
from kernels import softmax

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax(x, out, x.shape[0], x.shape[1])
        return out
"""
"""``softmax(x, out, rows, columns)``."""

LINEAR_GELU = """
import torch
from torch import nn
from kernels import linear_gelu

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        out = x.new_empty(x.size(0), weight.size(0))
        linear_gelu(x, weight, bias, out, x.size(0), weight.size(0), x.size(1))
        return out
"""
"""``linear_gelu(x, weight, bias, out, m, n, k)``."""

LINEAR_BF16 = """
import torch
from torch import nn
from kernels import linear_relu

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        m, k = x.shape
        n = self.linear.out_features
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        linear_relu(x, self.linear.weight, self.linear.bias, out, m, n, k)
        return out
"""
"""``linear_relu(x, weight, bias, out, m, n, k)`` in bfloat16."""

INTEGER = """
import torch
import torch.nn as nn
from kernels import mix

class ModelNew(nn.Module):
    def forward(self, x, salt):
        mixed = torch.empty_like(x)
        odd = torch.empty((), dtype=torch.int64, device=x.device)
        mix(x, salt, mixed, odd, x.numel())
        return mixed, odd
"""
"""``mix(x, salt, mixed, odd, count)``."""

SWIGLU = """
import torch
from torch import nn
from kernels import swiglu

class ModelNew(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(gate)
        swiglu(gate, up, out, gate.numel())
        return out
"""
"""``swiglu(gate, up, out, n)`` in bfloat16."""

SCALE_ADD_CPP = """
#include <cstdint>

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float v = x[i] * w[i % columns] + y[i];
    out[i] = v < 0 ? 0 : v;
  }
  return 0;
}
"""

SCALE_ADD_KERNEL = """
#include <cstdint>
#include <cuda_runtime.h>

static __global__ void scale_add_kernel(const float* x, const float* w, const float* y, float* out, int64_t n, int columns) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i] * w[i % columns] + y[i];
  out[i] = v < 0 ? 0 : v;
}
"""

SCALE_ADD_CUDA = f"""{SCALE_ADD_KERNEL}
extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {{
  const int64_t n = rows * columns;
  if (n) scale_add_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, w, y, out, n, columns);
  return cudaGetLastError();
}}
"""
