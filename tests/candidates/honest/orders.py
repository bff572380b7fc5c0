"""Scans, sorts, counts and look-ups: CUB and the standard library, chunks in several passes, atomics."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_SCAN = """
import torch
from torch import nn
from kernels import scan_rows

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scan_rows(x, out, x.shape[0], x.shape[1])
        return out
"""

_SCAN_IN_CHUNKS = """
import math
import torch
from torch import nn
from kernels import chunk_sums, chunk_offsets, chunk_scan

CHUNK = 256

class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        chunks = math.ceil(columns / CHUNK)
        sums = torch.empty(rows, chunks, dtype=torch.float64, device=x.device)
        out = torch.empty_like(x)
        chunk_sums(x, sums, rows, columns, chunks, CHUNK)
        chunk_offsets(sums, rows, chunks)
        chunk_scan(x, sums, out, rows, columns, chunks, CHUNK)
        return out
"""

_SORT = """
import torch
from torch import nn
from kernels import sort_rows

class ModelNew(nn.Module):
    def forward(self, x):
        if x.dim() != 2 or x.size(-1) != 256:
            raise ValueError(f"rows of 256 expected, got {tuple(x.shape)}")
        out = torch.empty_like(x)
        if x.numel() == 0:
            return out
        sort_rows(x, out, x.size(0))
        return out
"""

ORDERS = [
    Candidate(
        "running sums of a row",
        "scan",
        _SCAN,
        cpp={
            "scan_rows": """
#include <cstdint>
#include <functional>
#include <numeric>

extern "C" int scan_rows(const float* x, float* out, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * columns;
    std::transform_inclusive_scan(row, row + columns, out + r * columns, std::plus<double>{},
                                  [](float v) { return double(v); }, 0.0);
  }
  return 0;
}
"""
        },
        cuda={
            "scan_rows": """
#include <cstdint>
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

constexpr int THREADS = 128, ITEMS = 8, TILE = THREADS * ITEMS;

// The sum so far, handed to a block's scan as the prefix of its next tile.
struct Prefix {
  double total;
  __device__ double operator()(double aggregate) {
    const double old = total;
    total += aggregate;
    return old;
  }
};

__global__ void __launch_bounds__(THREADS) scan_kernel(const float* x, float* out, int columns) {
  using Load = cub::BlockLoad<float, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<float, THREADS, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<double, THREADS>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
  } storage;
  const float* in = x + int64_t(blockIdx.x) * columns;
  float* to = out + int64_t(blockIdx.x) * columns;
  Prefix prefix = {0.0};
  for (int at = 0; at < columns; at += TILE) {
    float values[ITEMS];
    double sums[ITEMS];
    const int valid = min(TILE, columns - at);
    Load(storage.load).Load(in + at, values, valid, 0.0f);
    __syncthreads();
    for (int i = 0; i < ITEMS; ++i) sums[i] = values[i];
    Scan(storage.scan).InclusiveSum(sums, sums, prefix);
    __syncthreads();
    for (int i = 0; i < ITEMS; ++i) values[i] = float(sums[i]);
    Store(storage.store).Store(to + at, values, valid);
    __syncthreads();
  }
}

extern "C" int scan_rows(const float* x, float* out, int64_t rows, int64_t columns, cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  scan_kernel<<<rows, THREADS, 0, stream>>>(x, out, columns);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "running sums in chunks, three launches",
        "scan",
        _SCAN_IN_CHUNKS,
        cpp={
            "scan": """
#include <algorithm>
#include <cstdint>

extern "C" int chunk_sums(const float* x, double* sums, int64_t rows, int64_t columns, int64_t chunks, int64_t chunk) {
#pragma omp parallel for collapse(2)
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < chunks; ++k) {
      double sum = 0;
      for (int64_t c = k * chunk; c < std::min(columns, (k + 1) * chunk); ++c) sum += x[r * columns + c];
      sums[r * chunks + k] = sum;
    }
  return 0;
}

extern "C" int chunk_offsets(double* sums, int64_t rows, int64_t chunks) {
  for (int64_t r = 0; r < rows; ++r) {
    double before = 0;
    for (int64_t k = 0; k < chunks; ++k) {
      const double own = sums[r * chunks + k];
      sums[r * chunks + k] = before;
      before += own;
    }
  }
  return 0;
}

extern "C" int chunk_scan(const float* x, const double* sums, float* out, int64_t rows, int64_t columns, int64_t chunks,
                          int64_t chunk) {
#pragma omp parallel for collapse(2)
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < chunks; ++k) {
      double sum = sums[r * chunks + k];
      for (int64_t c = k * chunk; c < std::min(columns, (k + 1) * chunk); ++c) {
        sum += x[r * columns + c];
        out[r * columns + c] = float(sum);
      }
    }
  return 0;
}
"""
        },
        cuda={
            "scan": """
#include <cstdint>
#include <cuda_runtime.h>

// A warp owns a chunk of a row.
__global__ void sums_kernel(const float* x, double* sums, int columns, int chunks, int chunk) {
  const float* row = x + int64_t(blockIdx.y) * columns;
  double sum = 0;
  for (int c = blockIdx.x * chunk + threadIdx.x; c < min(columns, (int(blockIdx.x) + 1) * chunk); c += 32) sum += row[c];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x == 0) sums[int64_t(blockIdx.y) * chunks + blockIdx.x] = sum;
}

__global__ void offsets_kernel(double* sums, int64_t rows, int chunks) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double before = 0;
  for (int k = 0; k < chunks; ++k) {
    const double own = sums[row * chunks + k];
    sums[row * chunks + k] = before;
    before += own;
  }
}

__global__ void scan_kernel(const float* x, const double* sums, float* out, int columns, int chunks, int chunk) {
  const int64_t row = int64_t(blockIdx.y) * columns;
  double carry = sums[int64_t(blockIdx.y) * chunks + blockIdx.x];
  const int end = min(columns, (int(blockIdx.x) + 1) * chunk);
  for (int at = blockIdx.x * chunk; at < end; at += 32) {
    const int c = at + threadIdx.x;
    double v = c < end ? x[row + c] : 0.0;
    for (int o = 1; o < 32; o <<= 1) {
      const double left = __shfl_up_sync(~0u, v, o);
      if (threadIdx.x >= o) v += left;
    }
    if (c < end) out[row + c] = float(carry + v);
    carry += __shfl_sync(~0u, v, 31);
  }
}

extern "C" int chunk_sums(const float* x, double* sums, int64_t rows, int64_t columns, int64_t chunks, int64_t chunk,
                          cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  sums_kernel<<<dim3(chunks, rows), 32, 0, stream>>>(x, sums, columns, chunks, chunk);
  return cudaGetLastError();
}

extern "C" int chunk_offsets(double* sums, int64_t rows, int64_t chunks, cudaStream_t stream) {
  if (rows * chunks == 0) return 0;
  offsets_kernel<<<(rows + 127) / 128, 128, 0, stream>>>(sums, rows, chunks);
  return cudaGetLastError();
}

extern "C" int chunk_scan(const float* x, const double* sums, float* out, int64_t rows, int64_t columns, int64_t chunks,
                          int64_t chunk, cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  scan_kernel<<<dim3(chunks, rows), 32, 0, stream>>>(x, sums, out, columns, chunks, chunk);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "rows sorted by a library's sort",
        "sort",
        _SORT,
        cpp={
            "sort_rows": """
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int sort_rows(const float* x, float* out, int64_t rows) {
  constexpr int64_t n = 256;
  std::copy(x, x + rows * n, out);
  for (int64_t r = 0; r < rows; ++r)
    std::sort(out + r * n, out + (r + 1) * n, [](float a, float b) { return a < b || (!std::isnan(a) && std::isnan(b)); });
  return 0;
}
"""
        },
        cuda={
            "sort_rows": """
#include <cstdint>
#include <cub/block/block_radix_sort.cuh>

__global__ void __launch_bounds__(64) sort_kernel(const float* x, float* out) {
  using Sort = cub::BlockRadixSort<float, 64, 4>;
  __shared__ typename Sort::TempStorage storage;
  float keys[4];
  const float4 in = reinterpret_cast<const float4*>(x)[int64_t(blockIdx.x) * 64 + threadIdx.x];
  keys[0] = in.x, keys[1] = in.y, keys[2] = in.z, keys[3] = in.w;
  Sort(storage).Sort(keys);
  reinterpret_cast<float4*>(out)[int64_t(blockIdx.x) * 64 + threadIdx.x] = make_float4(keys[0], keys[1], keys[2], keys[3]);
}

extern "C" int sort_rows(const float* x, float* out, int64_t rows, cudaStream_t stream) {
  if (rows > 0) sort_kernel<<<rows, 64, 0, stream>>>(x, out);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "rows sorted by a network in shared memory",
        "sort",
        _SORT,
        cpp={
            "sort_rows": """
#include <cstdint>
#include <cstring>

static inline void exchange(float& a, float& b) {
  const float low = a < b ? a : b, high = a < b ? b : a;
  a = low;
  b = high;
}

extern "C" int sort_rows(const float* x, float* out, int64_t rows) {
  enum { N = 256 };
  for (int64_t r = 0; r < rows; ++r) {
    float row[N];
    std::memcpy(row, x + r * N, sizeof row);
    for (int k = 2; k <= N; k <<= 1)
      for (int j = k >> 1; j > 0; j >>= 1)
        for (int i = 0; i < N; ++i) {
          const int other = i ^ j;
          if (other <= i) continue;
          if (i & k) exchange(row[other], row[i]);
          else exchange(row[i], row[other]);
        }
    std::memcpy(out + r * N, row, sizeof row);
  }
  return 0;
}
"""
        },
        cuda={
            "sort_rows": """
#include <cstdint>

__global__ void bitonic(const float* x, float* out) {
  __shared__ float row[256];
  const int i = threadIdx.x;
  row[i] = x[(int64_t)blockIdx.x * 256 + i];
  __syncthreads();
  for (int k = 2; k <= 256; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      const int other = i ^ j;
      if (other > i) {
        const float a = row[i], b = row[other];
        if (((i & k) == 0) == (a > b)) {
          row[i] = b;
          row[other] = a;
        }
      }
      __syncthreads();
    }
  out[(int64_t)blockIdx.x * 256 + i] = row[i];
}

extern "C" int sort_rows(const float* x, float* out, int64_t rows, cudaStream_t stream) {
  if (rows > 0) bitonic<<<rows, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
"""
        },
    ),
]
