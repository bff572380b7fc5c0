"""Softmax in one pass and in several, settings by shape, scratch between kernels, several outputs."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import SOFTMAX

_WITH_SETTINGS = """
from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn as nn
from kernels import softmax


@dataclass(frozen=True)
class Launch:
    threads: int
    rows_per_block: int = 1

    @property
    def name(self) -> str:
        return f"softmax_{self.threads}x{self.rows_per_block}"


def _choose(columns: int) -> Launch:
    return Launch(32, 4) if columns <= 256 else Launch(min(1024, 32 * ((columns + 127) // 128)))


class ModelNew(nn.Module):
    # Settings, not results: how to launch for a shape.
    _launches: dict[tuple[int, int], Launch] = {}

    def extra_repr(self) -> str:
        return ", ".join(launch.name for launch in self._launches.values())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key = (x.shape[0], x.shape[1])
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = _choose(x.shape[1])
        out = torch.empty_like(x)
        softmax(x, out, *key, launch.threads, launch.rows_per_block)
        return out
"""

_WITH_SCRATCH = """
import torch
import torch.nn as nn
from kernels import layer_norm_stats, layer_norm_apply

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self._stats = None  # scratch, written anew in every call

    def _scratch(self, x, rows):
        if self._stats is None or self._stats.shape[0] < rows or self._stats.device != x.device:
            self._stats = torch.empty((rows, 2), dtype=torch.float32, device=x.device)
        return self._stats

    def forward(self, x):
        rows, cols = x.shape
        stats = self._scratch(x, rows)
        out = torch.empty_like(x)
        layer_norm_stats(x, stats, rows, cols, self.norm.eps)
        layer_norm_apply(x, stats, self.norm.weight, self.norm.bias, out, rows, cols)
        return out
"""

_BEST = """
import torch
from torch import nn
from kernels import best

class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.size()
        values = x.new_empty(rows)
        indices = x.new_empty(rows, dtype=torch.long)
        mean = torch.empty_like(values)
        best(x, values, indices, mean, rows, columns)
        return dict(values=values, indices=indices, mean=mean)
"""

REDUCTIONS = [
    Candidate(
        "softmax in one pass, rescaled as it goes",
        "softmax",
        SOFTMAX,
        cpp={
            "softmax": """
#include <cmath>
#include <cstdint>
#include <limits>

extern "C" int softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (int64_t c = 0; c < columns; ++c) {
      const double v = x[r * columns + c];
      if (v > top) {
        sum = sum * std::exp(top - v) + 1.0;
        top = v;
      } else {
        sum += std::exp(v - top);
      }
    }
    for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = float(std::exp(x[r * columns + c] - top) / sum);
  }
  return 0;
}
"""
        },
        cuda={
            "softmax": """
#include <cstdint>

struct Running { float top, sum; };

__device__ Running join(Running a, Running b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return {top, 0.f};
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__global__ void softmax_online(const float* x, float* out, int64_t rows, int columns) {
  const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float* in = x + row * columns;
  Running r = {-INFINITY, 0.f};
  for (int c = threadIdx.x; c < columns; c += 32) r = join(r, {in[c], 1.f});
  for (int mask = 16; mask; mask >>= 1)
    r = join(r, {__shfl_xor_sync(~0u, r.top, mask), __shfl_xor_sync(~0u, r.sum, mask)});
  const float scale = 1.f / r.sum;
  for (int c = threadIdx.x; c < columns; c += 32) out[row * columns + c] = expf(in[c] - r.top) * scale;
}

extern "C" int softmax(const float* x, float* out, int64_t rows, int64_t columns, cudaStream_t stream) {
  if (rows) softmax_online<<<(rows + 7) / 8, dim3(32, 8), 0, stream>>>(x, out, rows, columns);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "settings by shape in a dataclass",
        "softmax",
        _WITH_SETTINGS,
        cpp={
            "softmax": """
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* out, int64_t rows, int64_t columns, int64_t threads, int64_t rows_per_block) {
  (void)threads;
  const int64_t blocks = (rows + rows_per_block - 1) / rows_per_block;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t r = b * rows_per_block; r < std::min(rows, (b + 1) * rows_per_block); ++r) {
      const float* in = x + r * columns;
      const float top = *std::max_element(in, in + columns);
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += std::exp(double(in[c]) - top);
      for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = std::exp(in[c] - top) / float(sum);
    }
  return 0;
}
"""
        },
        cuda={
            "softmax": """
#include <cstdint>
#include <cuda_runtime.h>

// A row is owned by blockDim.x threads; threadIdx.y counts rows of a block.
__global__ void softmax_kernel(const float* x, float* out, int64_t rows, int columns) {
  extern __shared__ float slots[];
  float* mine = slots + threadIdx.y * 32;
  const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
  const bool live = row < rows;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const float* in = x + (live ? row : 0) * columns;

  float top = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) top = fmaxf(top, in[c]);
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  if (threadIdx.x % 32 == 0) mine[warp] = top;
  __syncthreads();
  for (int i = 0; i < warps; ++i) top = fmaxf(top, mine[i]);
  __syncthreads();

  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(in[c] - top);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) mine[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < warps; ++i) sum += mine[i];
  if (live)
    for (int c = threadIdx.x; c < columns; c += blockDim.x) out[row * columns + c] = expf(in[c] - top) / sum;
}

extern "C" int softmax(const float* x, float* out, int64_t rows, int64_t columns, int64_t threads, int64_t rows_per_block,
                       cudaStream_t stream) {
  if (threads % 32 || threads * rows_per_block > 1024) return cudaErrorInvalidConfiguration;
  if (rows == 0) return 0;
  const dim3 block(threads, rows_per_block);
  softmax_kernel<<<(rows + rows_per_block - 1) / rows_per_block, block, rows_per_block * 32 * sizeof(float), stream>>>(
      x, out, rows, columns);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "scratch kept between calls, two kernels",
        "layer_norm",
        _WITH_SCRATCH,
        cpp={
            "stats": """
#include <cmath>
#include <cstdint>

extern "C" int layer_norm_stats(const float* x, float* stats, int64_t rows, int64_t cols, float eps) {
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, var = 0;
    for (int64_t c = 0; c < cols; ++c) mean += x[r * cols + c];
    mean /= cols;
    for (int64_t c = 0; c < cols; ++c) var += (x[r * cols + c] - mean) * (x[r * cols + c] - mean);
    stats[2 * r] = float(mean);
    stats[2 * r + 1] = float(1 / std::sqrt(var / cols + eps));
  }
  return 0;
}
""",
            "apply": """
#include <cstdint>

extern "C" int layer_norm_apply(const float* x, const float* stats, const float* weight, const float* bias, float* out,
                                int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out[r * cols + c] = (x[r * cols + c] - stats[2 * r]) * stats[2 * r + 1] * weight[c] + bias[c];
  return 0;
}
""",
        },
        cuda={
            "stats": """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void stats_kernel(const float* x, float2* stats, int cols, float eps) {
  __shared__ float sums[32];
  const float* in = x + (int64_t)blockIdx.x * cols;
  auto block_sum = [&](float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) v += sums[i];
    __syncthreads();
    return v;
  };
  float sum = 0, squares = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += in[c];
  const float mean = block_sum(sum) / cols;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) squares += (in[c] - mean) * (in[c] - mean);
  const float rstd = rsqrtf(block_sum(squares) / cols + eps);
  if (threadIdx.x == 0) stats[blockIdx.x] = make_float2(mean, rstd);
}

extern "C" int layer_norm_stats(const float* x, float* stats, int64_t rows, int64_t cols, float eps, cudaStream_t stream) {
  if (rows) stats_kernel<<<rows, 256, 0, stream>>>(x, reinterpret_cast<float2*>(stats), cols, eps);
  return cudaGetLastError();
}
""",
            "apply": """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void apply_kernel(const float* x, const float2* stats, const float* weight, const float* bias, float* out,
                             int64_t n, int cols) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 s = stats[i / cols];
  const int c = i % cols;
  out[i] = (x[i] - s.x) * s.y * weight[c] + bias[c];
}

extern "C" int layer_norm_apply(const float* x, const float* stats, const float* weight, const float* bias, float* out,
                                int64_t rows, int64_t cols, cudaStream_t stream) {
  const int64_t n = rows * cols;
  if (n) apply_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, reinterpret_cast<const float2*>(stats), weight, bias, out, n, cols);
  return cudaGetLastError();
}
""",
        },
    ),
    Candidate(
        "several outputs in a dict",
        "best",
        _BEST,
        cpp={
            "best": """
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>

extern "C" int best(const float* x, float* values, int64_t* indices, float* mean, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* begin = x + r * columns;
    const float* end = begin + columns;
    const float* top = std::max_element(begin, end);
    values[r] = *top;
    indices[r] = std::distance(begin, top);
    mean[r] = static_cast<float>(std::accumulate(begin, end, 0.0) / columns);
  }
  return 0;
}
"""
        },
        cuda={
            "best": """
#include <cstdint>
#include <cub/block/block_reduce.cuh>

struct Item {
  float value;
  int index;
};

struct Larger {  // of equal ones the first
  __device__ Item operator()(const Item& a, const Item& b) const {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
  }
};

template <int THREADS>
__global__ void best_kernel(const float* x, float* values, int64_t* indices, float* mean, int columns) {
  using ReduceItem = cub::BlockReduce<Item, THREADS>;
  using ReduceSum = cub::BlockReduce<float, THREADS>;
  __shared__ union {
    typename ReduceItem::TempStorage item;
    typename ReduceSum::TempStorage sum;
  } storage;
  const float* row = x + int64_t(blockIdx.x) * columns;
  Item item = {-INFINITY, 0x7fffffff};
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += THREADS) {
    item = Larger()(item, {row[c], c});
    sum += row[c];
  }
  item = ReduceItem(storage.item).Reduce(item, Larger());
  __syncthreads();
  sum = ReduceSum(storage.sum).Sum(sum);
  if (threadIdx.x == 0) {
    values[blockIdx.x] = item.value;
    indices[blockIdx.x] = item.index;
    mean[blockIdx.x] = sum / columns;
  }
}

extern "C" int best(const float* x, float* values, int64_t* indices, float* mean, int64_t rows, int64_t columns,
                    cudaStream_t stream) {
  if (rows) best_kernel<128><<<rows, 128, 0, stream>>>(x, values, indices, mean, columns);
  return cudaGetLastError();
}
"""
        },
    ),
]
