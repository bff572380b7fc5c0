"""Modules that are trained: autograd functions whose backward has kernels of its own."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_GATED_FUNCTION = """
import torch
from torch import nn
from kernels import gated, gated_backward


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        out = torch.empty_like(x)
        gated(x, weight, out, x.shape[0], x.shape[1])
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_weight = torch.empty_like(weight)
        grad = grad.contiguous()
        gated_backward(grad, x, weight, grad_x, grad_weight, x.shape[0], x.shape[1])
        return grad_x, grad_weight


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return Gated.apply(x, self.weight)
"""

_GATED_PARTS = """
from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import kernels


class _Gated(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        rows, size = x.shape
        out, slope = torch.empty_like(x), torch.empty_like(x)
        kernels.gated_with_slope(x, weight, out, slope, rows, size)
        ctx.save_for_backward(x, weight, slope)
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Optional[Tensor]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        if grad is None:
            return None, None
        x, weight, slope = ctx.saved_tensors
        rows, size = x.shape
        needs_x, needs_weight = ctx.needs_input_grad
        grad_x = torch.empty_like(x) if needs_x else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        grad = grad if grad.is_contiguous() else grad.contiguous()
        if needs_x:
            kernels.gated_grad_input(grad, slope, weight, grad_x, rows, size)
        if needs_weight:
            kernels.gated_grad_weight(grad, x, grad_weight, rows, size)
        return grad_x, grad_weight


class ModelNew(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return _Gated.apply(x, self.weight)
"""

TRAINED = [
    Candidate(
        "an autograd function with a backward kernel",
        "gated",
        _GATED_FUNCTION,
        cpp={
            "gated": """
#include <cmath>
#include <cstdint>
#include <vector>

static inline float sigmoid(float v) { return 1 / (1 + std::exp(-v)); }

extern "C" int gated(const float* x, const float* weight, float* out, int64_t rows, int64_t size) {
  for (int64_t i = 0; i < rows * size; ++i) out[i] = x[i] * sigmoid(x[i]) * weight[i % size];
  return 0;
}

extern "C" int gated_backward(const float* grad, const float* x, const float* weight, float* grad_x, float* grad_weight,
                              int64_t rows, int64_t size) {
  std::vector<double> sums(size, 0.0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < size; ++c) {
      const int64_t i = r * size + c;
      const float s = sigmoid(x[i]);
      grad_x[i] = grad[i] * weight[c] * s * (1 + x[i] * (1 - s));
      sums[c] += double(grad[i]) * x[i] * s;
    }
  for (int64_t c = 0; c < size; ++c) grad_weight[c] = float(sums[c]);
  return 0;
}
"""
        },
        cuda={
            "gated": """
#include <cstdint>

__device__ __forceinline__ float sigmoid(float v) { return 1.f / (1.f + expf(-v)); }

__global__ void gated_kernel(const float* x, const float* weight, float* out, int64_t n, int size) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * sigmoid(x[i]) * weight[i % size];
}

// A thread owns a column of a strip of rows; strips meet in shared memory, so that no atomics are needed.
__global__ void backward_kernel(const float* grad, const float* x, const float* weight, float* grad_x, float* grad_weight,
                                int64_t rows, int size) {
  __shared__ float strips[32][33];
  const int c = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.f;
  if (c < size)
    for (int64_t r = threadIdx.y; r < rows; r += 32) {
      const int64_t i = r * size + c;
      const float s = sigmoid(x[i]);
      grad_x[i] = grad[i] * weight[c] * s * (1.f + x[i] * (1.f - s));
      sum += grad[i] * x[i] * s;
    }
  strips[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && c < size) {
    for (int k = 1; k < 32; ++k) sum += strips[k][threadIdx.x];
    grad_weight[c] = sum;
  }
}

extern "C" int gated(const float* x, const float* weight, float* out, int64_t rows, int64_t size, cudaStream_t stream) {
  const int64_t n = rows * size;
  if (n) gated_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, weight, out, n, size);
  return cudaGetLastError();
}

extern "C" int gated_backward(const float* grad, const float* x, const float* weight, float* grad_x, float* grad_weight,
                              int64_t rows, int64_t size, cudaStream_t stream) {
  if (size) backward_kernel<<<(size + 31) / 32, dim3(32, 32), 0, stream>>>(grad, x, weight, grad_x, grad_weight, rows, size);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a backward of two kernels, only what is needed",
        "gated",
        _GATED_PARTS,
        cpp={
            "gated": """
#include <cmath>
#include <cstdint>

extern "C" int gated_with_slope(const float* x, const float* weight, float* out, float* slope, int64_t rows, int64_t size) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < size; ++c) {
      const int64_t i = r * size + c;
      const float s = 1.0f / (1.0f + std::exp(-x[i]));
      out[i] = x[i] * s * weight[c];
      slope[i] = s * (1.0f + x[i] * (1.0f - s));
    }
  return 0;
}

extern "C" int gated_grad_input(const float* grad, const float* slope, const float* weight, float* grad_x, int64_t rows,
                                int64_t size) {
  for (int64_t i = 0; i < rows * size; ++i) grad_x[i] = grad[i] * slope[i] * weight[i % size];
  return 0;
}

extern "C" int gated_grad_weight(const float* grad, const float* x, float* grad_weight, int64_t rows, int64_t size) {
  for (int64_t c = 0; c < size; ++c) {
    double sum = 0;
    for (int64_t i = c; i < rows * size; i += size) sum += double(grad[i]) * x[i] / (1.0 + std::exp(-double(x[i])));
    grad_weight[c] = float(sum);
  }
  return 0;
}
"""
        },
        cuda={
            "gated": """
#include <cstdint>

__global__ void with_slope(const float* x, const float* weight, float* out, float* slope, int64_t n, int size) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float s = 1.f / (1.f + expf(-x[i]));
  out[i] = x[i] * s * weight[i % size];
  slope[i] = s * (1.f + x[i] * (1.f - s));
}

__global__ void grad_input(const float* grad, const float* slope, const float* weight, float* grad_x, int64_t n, int size) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) grad_x[i] = grad[i] * slope[i] * weight[i % size];
}

__global__ void grad_weight_kernel(const float* grad, const float* x, float* grad_weight, int64_t rows, int size) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t from = rows * blockIdx.y / gridDim.y, to = rows * (blockIdx.y + 1) / gridDim.y;
  if (c >= size) return;
  float sum = 0.f;
  for (int64_t r = from; r < to; ++r) sum += grad[r * size + c] * x[r * size + c] / (1.f + expf(-x[r * size + c]));
  atomicAdd(grad_weight + c, sum);
}

extern "C" int gated_with_slope(const float* x, const float* weight, float* out, float* slope, int64_t rows, int64_t size,
                                cudaStream_t stream) {
  const int64_t n = rows * size;
  if (n) with_slope<<<(n + 255) / 256, 256, 0, stream>>>(x, weight, out, slope, n, size);
  return cudaGetLastError();
}

extern "C" int gated_grad_input(const float* grad, const float* slope, const float* weight, float* grad_x, int64_t rows,
                                int64_t size, cudaStream_t stream) {
  const int64_t n = rows * size;
  if (n) grad_input<<<(n + 255) / 256, 256, 0, stream>>>(grad, slope, weight, grad_x, n, size);
  return cudaGetLastError();
}

extern "C" int gated_grad_weight(const float* grad, const float* x, float* grad_weight, int64_t rows, int64_t size,
                                 cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(grad_weight, 0, size * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  if (size) grad_weight_kernel<<<dim3((size + 127) / 128, 32), 128, 0, stream>>>(grad, x, grad_weight, rows, size);
  return cudaGetLastError();
}
"""
        },
    ),
]
