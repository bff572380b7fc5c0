"""What a call changes or receives as it is: buffers that train, inputs changed in place, views with strides."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_BATCH_NORM = """
import torch
from torch import nn
from kernels import batch_norm_relu

class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n, c, h, w = x.shape
        bn = self.norm
        out = torch.empty_like(x)
        batch_norm_relu(
            x, bn.weight, bn.bias, bn.running_mean, bn.running_var, bn.num_batches_tracked, out, n, c, h * w, bn.eps, bn.momentum
        )
        return out
"""

_IN_PLACE = """
import torch
from torch import nn
from kernels import halve_add_

class ModelNew(nn.Module):
    def forward(self, x, y):
        halve_add_(x, y, x.numel())
        return x
"""

_IN_PLACE_OUT = """
import torch
from torch import nn
from kernels import halve_add


def halve_add_into(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    if out.shape != x.shape or y.shape != x.shape:
        raise ValueError(f"shapes differ: {x.shape}, {y.shape}, {out.shape}")
    if not all(t.is_contiguous() for t in (x, y, out)):
        raise ValueError("contiguous tensors expected")
    halve_add(x, y, out, *x.shape)
    return out


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return halve_add_into(x, y, out=x)
"""

_STRIDES = """
import torch
from torch import nn
from kernels import scaled_difference

class ModelNew(nn.Module):
    def forward(self, x, y, scale=1.0):
        # As the original returns it: laid out like x.
        out = torch.empty_strided(x.shape, (1, x.shape[0]), dtype=x.dtype, device=x.device)
        scaled_difference(x, y, out, x.shape[0], x.shape[1], scale, *x.stride(), *y.stride(), *out.stride())
        return out
"""

_TRANSPOSED = """
import torch
from torch import nn
from kernels import transposed_difference

class ModelNew(nn.Module):
    def forward(self, x, y, scale=1.0):
        if x.t().is_contiguous() and y.stride(1) == 1:
            columns, rows = x.t().shape
            out = x.new_empty(columns, rows)
            transposed_difference(x.t(), y, out, columns, rows, float(scale), y.stride(0), y.stride(1))
            return out.t()
        raise ValueError("x is expected to be a transposed view, y to have contiguous rows")
"""

STATE = [
    Candidate(
        "batch statistics, and buffers that move",
        "batch_norm",
        _BATCH_NORM,
        cpp={
            "batch_norm_relu": """
#include <cmath>
#include <cstdint>

extern "C" int batch_norm_relu(const float* x, const float* weight, const float* bias, float* running_mean, float* running_var,
                               int64_t* batches, float* out, int64_t n, int64_t c, int64_t pixels, float eps, float momentum) {
  const double count = double(n) * pixels;
#pragma omp parallel for
  for (int64_t ch = 0; ch < c; ++ch) {
    double sum = 0, squares = 0;
    for (int64_t b = 0; b < n; ++b)
      for (int64_t p = 0; p < pixels; ++p) sum += x[(b * c + ch) * pixels + p];
    const double mean = sum / count;
    for (int64_t b = 0; b < n; ++b)
      for (int64_t p = 0; p < pixels; ++p) {
        const double d = x[(b * c + ch) * pixels + p] - mean;
        squares += d * d;
      }
    const float scale = float(weight[ch] / std::sqrt(squares / count + eps));
    for (int64_t b = 0; b < n; ++b)
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t i = (b * c + ch) * pixels + p;
        const float v = (x[i] - float(mean)) * scale + bias[ch];
        out[i] = v < 0 ? 0 : v;
      }
    running_mean[ch] += momentum * (float(mean) - running_mean[ch]);
    running_var[ch] += momentum * (float(squares / (count - 1)) - running_var[ch]);
  }
  ++*batches;
  return 0;
}
"""
        },
        cuda={
            "batch_norm_relu": """
#include <cstdint>

__device__ float block_sum(float v, float* slots) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : 0.f;
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}

// A block owns a channel.
__global__ void __launch_bounds__(512) batch_norm_kernel(
    const float* x, const float* weight, const float* bias, float* running_mean, float* running_var, int64_t* batches, float* out,
    int n, int c, int pixels, float eps, float momentum) {
  __shared__ float slots[32];
  const int ch = blockIdx.x;
  const float count = float(n) * pixels;
  float sum = 0.f, squares = 0.f;
  for (int b = 0; b < n; ++b)
    for (int p = threadIdx.x; p < pixels; p += blockDim.x) sum += x[(int64_t(b) * c + ch) * pixels + p];
  const float mean = block_sum(sum, slots) / count;
  for (int b = 0; b < n; ++b)
    for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
      const float d = x[(int64_t(b) * c + ch) * pixels + p] - mean;
      squares += d * d;
    }
  squares = block_sum(squares, slots);
  const float scale = weight[ch] * rsqrtf(squares / count + eps);
  for (int b = 0; b < n; ++b)
    for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
      const int64_t i = (int64_t(b) * c + ch) * pixels + p;
      const float v = (x[i] - mean) * scale + bias[ch];
      out[i] = v < 0.f ? 0.f : v;
    }
  if (threadIdx.x == 0) {
    running_mean[ch] += momentum * (mean - running_mean[ch]);
    running_var[ch] += momentum * (squares / (count - 1.f) - running_var[ch]);
    if (ch == 0) *batches += 1;
  }
}

extern "C" int batch_norm_relu(const float* x, const float* weight, const float* bias, float* running_mean, float* running_var,
                               int64_t* batches, float* out, int64_t n, int64_t c, int64_t pixels, float eps, float momentum,
                               cudaStream_t stream) {
  if (n * c * pixels == 0) return 0;
  batch_norm_kernel<<<c, 512, 0, stream>>>(x, weight, bias, running_mean, running_var, batches, out, n, c, pixels, eps, momentum);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "an input changed in place",
        "in_place",
        _IN_PLACE,
        cpp={
            "halve_add": """
#include <cstdint>

extern "C" int halve_add_(float* x, const float* y, int64_t n) {
  for (float* end = x + n; x != end; ++x, ++y) *x = *x * 0.5f + *y;
  return 0;
}
"""
        },
        cuda={
            "halve_add": """
#include <cstdint>

__global__ void halve_add_kernel(float* x, const float* y, int64_t n) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
    x[i] = x[i] * 0.5f + y[i];
}

extern "C" int halve_add_(float* x, const float* y, int64_t n, cudaStream_t stream) {
  if (n > 0) halve_add_kernel<<<1056, 256, 0, stream>>>(x, y, n);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "an output argument that is the input",
        "in_place",
        _IN_PLACE_OUT,
        cpp={
            "halve_add": """
#include <cstdint>

// out may be x.
extern "C" int halve_add(const float* x, const float* y, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = 0.5f * x[r * columns + c] + y[r * columns + c];
  return 0;
}
"""
        },
        cuda={
            "halve_add": """
#include <cstdint>
#include <cuda_runtime.h>

// out may be x: a thread writes only what it has read.
__global__ void halve_add_kernel(const float4* x, const float4* y, float4* out, int64_t quads) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 a = x[i], b = y[i];
  out[i] = make_float4(0.5f * a.x + b.x, 0.5f * a.y + b.y, 0.5f * a.z + b.z, 0.5f * a.w + b.w);
}

extern "C" int halve_add(const float* x, const float* y, float* out, int64_t rows, int64_t columns, cudaStream_t stream) {
  if (rows * columns % 4 != 0) return cudaErrorInvalidValue;
  const int64_t quads = rows * columns / 4;
  if (quads)
    halve_add_kernel<<<(quads + 255) / 256, 256, 0, stream>>>(
        reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(y), reinterpret_cast<float4*>(out), quads);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "strides passed as numbers",
        "views",
        _STRIDES,
        cpp={
            "scaled_difference": """
#include <cstdint>

extern "C" int scaled_difference(const float* x, const float* y, float* out, int64_t rows, int64_t columns, float scale,
                                 int64_t x_stride0, int64_t x_stride1, int64_t y_stride0, int64_t y_stride1,
                                 int64_t out_stride0, int64_t out_stride1) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      out[r * out_stride0 + c * out_stride1] =
          (x[r * x_stride0 + c * x_stride1] - y[r * y_stride0 + c * y_stride1]) * scale;
  return 0;
}
"""
        },
        cuda={
            "scaled_difference": """
#include <cstdint>

struct Strided {
  const float* data;
  int64_t row, column;
  __device__ float at(int64_t r, int64_t c) const { return data[r * row + c * column]; }
};

__global__ void difference(Strided x, Strided y, float* out, int64_t rows, int64_t columns, float scale, int64_t row,
                           int64_t column) {
  const int64_t r = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, c = blockIdx.y;
  if (r < rows) out[r * row + c * column] = (x.at(r, c) - y.at(r, c)) * scale;
}

extern "C" int scaled_difference(const float* x, const float* y, float* out, int64_t rows, int64_t columns, float scale,
                                 int64_t x_stride0, int64_t x_stride1, int64_t y_stride0, int64_t y_stride1,
                                 int64_t out_stride0, int64_t out_stride1, cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  difference<<<dim3((rows + 255) / 256, columns), 256, 0, stream>>>(
      {x, x_stride0, x_stride1}, {y, y_stride0, y_stride1}, out, rows, columns, scale, out_stride0, out_stride1);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a transposed view written by tiles",
        "views",
        _TRANSPOSED,
        cpp={
            "transposed_difference": """
#include <algorithm>
#include <cstdint>

// xt, out (columns, rows) contiguous; y (rows, columns) by strides; blocks of 32 by 32.
extern "C" int transposed_difference(const float* xt, const float* y, float* out, int64_t columns, int64_t rows, float scale,
                                     int64_t y_stride0, int64_t y_stride1) {
  constexpr int64_t B = 32;
  for (int64_t c0 = 0; c0 < columns; c0 += B)
    for (int64_t r0 = 0; r0 < rows; r0 += B)
      for (int64_t c = c0; c < std::min(columns, c0 + B); ++c)
        for (int64_t r = r0; r < std::min(rows, r0 + B); ++r)
          out[c * rows + r] = (xt[c * rows + r] - y[r * y_stride0 + c * y_stride1]) * scale;
  return 0;
}
"""
        },
        cuda={
            "transposed_difference": """
#include <cstdint>

__global__ void tiles(const float* xt, const float* y, float* out, int columns, int rows, float scale, int64_t y_row,
                      int64_t y_column) {
  __shared__ float tile[32][33];  // one more, so that a column has its own bank
  const int c0 = blockIdx.x * 32, r0 = blockIdx.y * 32;
  for (int k = threadIdx.y; k < 32; k += 8)
    if (r0 + k < rows && c0 + threadIdx.x < columns)
      tile[k][threadIdx.x] = y[(r0 + k) * y_row + (c0 + threadIdx.x) * y_column];
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 8) {
    const int64_t at = int64_t(c0 + k) * rows + r0 + threadIdx.x;
    if (c0 + k < columns && r0 + threadIdx.x < rows) out[at] = (xt[at] - tile[threadIdx.x][k]) * scale;
  }
}

extern "C" int transposed_difference(const float* xt, const float* y, float* out, int64_t columns, int64_t rows, float scale,
                                     int64_t y_stride0, int64_t y_stride1, cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  const dim3 grid((columns + 31) / 32, (rows + 31) / 32);
  tiles<<<grid, dim3(32, 8), 0, stream>>>(xt, y, out, columns, rows, scale, y_stride0, y_stride1);
  return cudaGetLastError();
}
"""
        },
    ),
]
