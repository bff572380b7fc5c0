"""Several kernels in a row: helper modules, repacked weights, streams that join, graphs, scratch of the launcher's own."""

from __future__ import annotations

from tests.candidates.frame import Candidate

MLP = """
import torch
from torch import nn
from kernels import mlp

class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        rows, width = x.shape
        middle = x.new_empty((rows, self.up.out_features))
        out = torch.empty_like(x)
        mlp(x, self.up.weight, self.up.bias, self.down.weight, self.down.bias, middle, out, rows, width, middle.shape[1])
        return out
"""
"""``mlp(x, up, up_bias, down, down_bias, middle, out, rows, width, hidden)``."""

_HELPERS = """
import torch
from torch import nn
from kernels import linear_act, linear_residual


class FusedLinear(nn.Module):
    \"\"\"A linear layer whose kernel does the rest too; parameters as ``nn.Linear`` has them.\"\"\"

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        nn.init.zeros_(self.bias)

    def sizes(self, x: torch.Tensor) -> "tuple[int, int, int]":
        return x.size(0), self.weight.size(0), self.weight.size(1)


class LinearRelu(FusedLinear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        m, n, k = self.sizes(x)
        out = x.new_empty((m, n))
        linear_act(x, self.weight, self.bias, out, m, n, k)
        return out


class LinearResidual(FusedLinear):
    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        m, n, k = self.sizes(x)
        out = torch.empty_like(residual)
        linear_residual(x, self.weight, self.bias, residual, out, m, n, k)
        return out


class ModelNew(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = LinearRelu(width, hidden)
        self.down = LinearResidual(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x), x)
"""

_REPACKED = """
import torch
from torch import nn
from kernels import transpose, mlp_packed

class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self._packed = None
        self._packed_of = None

    def _weights(self):
        # Packed again whenever a weight was replaced or changed in place.
        up, down = self.up.weight, self.down.weight
        key = (up.data_ptr(), up._version, down.data_ptr(), down._version)
        if key != self._packed_of:
            packed = torch.empty(up.shape[1], up.shape[0], device=up.device), torch.empty(
                down.shape[1], down.shape[0], device=down.device
            )
            transpose(up, packed[0], *up.shape)
            transpose(down, packed[1], *down.shape)
            self._packed, self._packed_of = packed, key
        return self._packed

    def forward(self, x):
        up, down = self._weights()
        rows, width = x.shape
        hidden = up.shape[1]
        out = torch.empty_like(x)
        mlp_packed(x, up, self.up.bias, down, self.down.bias, out, rows, width, hidden)
        return out
"""

LINEAR_CUH = """
#pragma once
#include <cstdint>
#include <cuda_runtime.h>

// out (m, n) = finish(x (m, k) times w (n, k) transposed, plus bias); 16 by 16 tiles.
template <class Finish>
__global__ void linear_tiles(const float* x, const float* w, const float* bias, float* out, int m, int n, int k, Finish finish) {
  __shared__ float xs[16][17], ws[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.f;
  for (int at = 0; at < k; at += 16) {
    const int p = at + threadIdx.x, j = blockIdx.x * 16 + threadIdx.y;
    xs[threadIdx.y][threadIdx.x] = row < m && p < k ? x[int64_t(row) * k + p] : 0.f;
    ws[threadIdx.y][threadIdx.x] = j < n && p < k ? w[int64_t(j) * k + p] : 0.f;
    __syncthreads();
    float of_tile = 0.f;
#pragma unroll
    for (int q = 0; q < 16; ++q) of_tile += xs[threadIdx.y][q] * ws[threadIdx.x][q];
    sum += of_tile;
    __syncthreads();
  }
  if (row < m && column < n) out[int64_t(row) * n + column] = finish(sum + bias[column], int64_t(row) * n + column);
}

struct Relu {
  __device__ float operator()(float v, int64_t) const { return v < 0.f ? 0.f : v; }
};

struct AddResidual {
  const float* residual;
  __device__ float operator()(float v, int64_t at) const { return v + residual[at]; }
};

template <class Finish>
void launch_linear(const float* x, const float* w, const float* bias, float* out, int64_t m, int64_t n, int64_t k, Finish finish,
                   cudaStream_t stream) {
  linear_tiles<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, stream>>>(x, w, bias, out, m, n, k, finish);
}
"""

LINEAR_H = """
#pragma once
#include <cstdint>

template <class Finish>
void linear_rows(const float* x, const float* w, const float* bias, float* out, int64_t m, int64_t n, int64_t k, Finish finish) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t p = 0; p < k; ++p) sum += x[i * k + p] * w[j * k + p];
      out[i * n + j] = finish(sum + bias[j], i * n + j);
    }
}

inline float relu(float v, int64_t) { return v < 0 ? 0 : v; }
"""

LAYERS = [
    Candidate(
        "helper modules around kernels of two files",
        "mlp",
        _HELPERS,
        cpp={
            "linear.h": LINEAR_H,
            "linear_act": """
#include "linear.h"

extern "C" int linear_act(const float* x, const float* w, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  linear_rows(x, w, b, out, m, n, k, relu);
  return 0;
}
""",
            "linear_residual": """
#include "linear.h"

extern "C" int linear_residual(const float* x, const float* w, const float* b, const float* residual, float* out, int64_t m,
                               int64_t n, int64_t k) {
  linear_rows(x, w, b, out, m, n, k, [residual](float v, int64_t at) { return v + residual[at]; });
  return 0;
}
""",
        },
        cuda={
            "linear.cuh": LINEAR_CUH,
            "linear_act": """
#include "linear.cuh"

extern "C" int linear_act(const float* x, const float* w, const float* b, float* out, int64_t m, int64_t n, int64_t k,
                          cudaStream_t stream) {
  if (m * n) launch_linear(x, w, b, out, m, n, k, Relu{}, stream);
  return cudaGetLastError();
}
""",
            "linear_residual": """
#include "linear.cuh"

extern "C" int linear_residual(const float* x, const float* w, const float* b, const float* residual, float* out, int64_t m,
                               int64_t n, int64_t k, cudaStream_t stream) {
  if (m * n) launch_linear(x, w, b, out, m, n, k, AddResidual{residual}, stream);
  return cudaGetLastError();
}
""",
        },
    ),
    Candidate(
        "weights repacked when their version changes",
        "mlp",
        _REPACKED,
        cpp={
            "mlp": """
#include <algorithm>
#include <cstdint>
#include <vector>

extern "C" int transpose(const float* from, float* to, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  return 0;
}

template <class T>
static void accumulate(const T* x, const float* packed, double* sums, int64_t k, int64_t n) {
  for (int64_t p = 0; p < k; ++p)
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) sums[j] += double(x[p]) * packed[p * n + j];
}

extern "C" int mlp_packed(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                          float* out, int64_t rows, int64_t width, int64_t hidden) {
  std::vector<double> middle(hidden), sums(width);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(up_bias, hidden, middle.begin());
    accumulate(x + r * width, up, middle.data(), width, hidden);
    for (double& v : middle) v = v < 0 ? 0 : v;
    std::copy_n(down_bias, width, sums.begin());
    accumulate(middle.data(), down, sums.data(), hidden, width);
    for (int64_t c = 0; c < width; ++c) out[r * width + c] = float(sums[c] + x[r * width + c]);
  }
  return 0;
}
"""
        },
        cuda={
            "mlp": """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void transpose_kernel(const float* from, float* to, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (r + k < rows && c < columns) tile[threadIdx.y + k][threadIdx.x] = from[int64_t(r + k) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (r + k < columns && c < rows) to[int64_t(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}

extern "C" int transpose(const float* from, float* to, int64_t rows, int64_t columns, cudaStream_t stream) {
  transpose_kernel<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8), 0, stream>>>(from, to, rows, columns);
  return cudaGetLastError();
}

constexpr int ROWS = 8;

// Adds in (ROWS rows in shared memory) times a column of packed weights; sixteen products at a time are summed apart.
__device__ void add_products(float (&sums)[ROWS], const float* in, const float* column, int k, int pitch) {
  for (int from = 0; from < k; from += 16) {
    float parts[ROWS] = {};
    for (int p = from; p < min(k, from + 16); ++p) {
      const float w = column[int64_t(p) * pitch];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) parts[r] += in[r * k + p] * w;
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) sums[r] += parts[r];
  }
}

// A block makes ROWS rows: hidden values in shared memory, threads along the columns of the packed weights.
__global__ void mlp_kernel(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                           float* out, int64_t rows, int width, int hidden) {
  extern __shared__ float shared[];
  float *xs = shared, *middle = shared + ROWS * width;
  const int64_t first = int64_t(blockIdx.x) * ROWS;
  const int count = min(int64_t(ROWS), rows - first);
  for (int i = threadIdx.x; i < ROWS * width; i += blockDim.x) xs[i] = i < count * width ? x[first * width + i] : 0.f;
  __syncthreads();
  for (int j = threadIdx.x; j < hidden; j += blockDim.x) {
    float sums[ROWS] = {};
    add_products(sums, xs, up + j, width, hidden);
    for (int r = 0; r < ROWS; ++r) {
      const float v = sums[r] + up_bias[j];
      middle[r * hidden + j] = v < 0.f ? 0.f : v;
    }
  }
  __syncthreads();
  for (int j = threadIdx.x; j < width; j += blockDim.x) {
    float sums[ROWS] = {};
    add_products(sums, middle, down + j, hidden, width);
    for (int r = 0; r < count; ++r) out[(first + r) * width + j] = sums[r] + down_bias[j] + xs[r * width + j];
  }
}

extern "C" int mlp_packed(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                          float* out, int64_t rows, int64_t width, int64_t hidden, cudaStream_t stream) {
  const size_t bytes = ROWS * (width + hidden) * sizeof(float);
  if (bytes > 200 * 1024) return cudaErrorInvalidValue;
  if (rows == 0) return 0;
  const cudaError_t error = cudaFuncSetAttribute(mlp_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  if (error != cudaSuccess) return error;
  mlp_kernel<<<(rows + ROWS - 1) / ROWS, 256, bytes, stream>>>(x, up, up_bias, down, down_bias, out, rows, width, hidden);
  return cudaGetLastError();
}
"""
        },
    ),
]
