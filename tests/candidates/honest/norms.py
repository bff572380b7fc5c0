"""Layer norm by warps, blocks, clusters, cooperative groups and CUB; on the CPU by loops and the standard library."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import LAYER_NORM

NORMS = [
    Candidate(
        "a warp a row, shuffles",
        "layer_norm",
        LAYER_NORM,
        cpp={
            "layer_norm": """
#include <cmath>
#include <cstdint>

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* out = y + r * cols;
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; ++c) sum += in[c];
    const float mean = sum / cols;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < cols; ++c) squares += (in[c] - mean) * (in[c] - mean);
    const float rstd = 1.0f / std::sqrt(squares / cols + eps);
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) out[c] = (in[c] - mean) * rstd * weight[c] + bias[c];
  }
  return 0;
}
"""
        },
        cuda={
            "layer_norm": """
#include <cstdint>

__inline__ __device__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffff, v, offset);
  return __shfl_sync(0xffffffff, v, 0);
}

__global__ void layer_norm_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                  const float* __restrict__ bias, float* __restrict__ y, int64_t rows, int cols, float eps) {
  const int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* in = x + row * cols;
  float sum = 0.f;
  for (int c = lane; c < cols; c += 32) sum += in[c];
  const float mean = warp_sum(sum) / cols;
  float squares = 0.f;
  for (int c = lane; c < cols; c += 32) squares += (in[c] - mean) * (in[c] - mean);
  const float rstd = rsqrtf(warp_sum(squares) / cols + eps);
  for (int c = lane; c < cols; c += 32) y[row * cols + c] = (in[c] - mean) * rstd * weight[c] + bias[c];
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps, cudaStream_t stream) {
  if (rows == 0) return 0;
  layer_norm_kernel<<<(rows + 7) / 8, 256, 0, stream>>>(x, weight, bias, y, rows, cols, eps);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "moments merged as they come",
        "layer_norm",
        LAYER_NORM,
        cpp={
            "layer_norm": """
#include <cmath>
#include <cstdint>

struct Welford {
  double mean = 0.0, m2 = 0.0;
  int64_t count = 0;

  void push(double value) {
    ++count;
    const double delta = value - mean;
    mean += delta / static_cast<double>(count);
    m2 += delta * (value - mean);
  }
  double variance() const { return count ? m2 / static_cast<double>(count) : 0.0; }
};

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps) {
  for (int64_t r = 0; r < rows; ++r) {
    Welford w;
    for (int64_t c = 0; c < cols; ++c) w.push(x[r * cols + c]);
    const double rstd = 1.0 / std::sqrt(w.variance() + eps);
    for (int64_t c = 0; c < cols; ++c)
      y[r * cols + c] = static_cast<float>((x[r * cols + c] - w.mean) * rstd * weight[c] + bias[c]);
  }
  return 0;
}
"""
        },
        cuda={
            "layer_norm": """
#include <cstdint>
#include <cuda_runtime.h>

struct Welford { float mean, m2, n; };

__device__ inline Welford combine(Welford a, Welford b) {
  const float n = a.n + b.n;
  if (n == 0.f) return a;
  const float delta = b.mean - a.mean, part = b.n / n;
  return {a.mean + delta * part, a.m2 + b.m2 + delta * delta * a.n * part, n};
}

__device__ Welford combine_warp(Welford w) {
  for (int mask = 16; mask > 0; mask >>= 1) {
    Welford other;
    other.mean = __shfl_xor_sync(~0u, w.mean, mask);
    other.m2 = __shfl_xor_sync(~0u, w.m2, mask);
    other.n = __shfl_xor_sync(~0u, w.n, mask);
    w = combine(w, other);
  }
  return w;
}

__global__ void layer_norm_welford(const float* x, const float* weight, const float* bias, float* y, int cols, float eps) {
  __shared__ Welford shared[32];
  const float* in = x + (int64_t)blockIdx.x * cols;
  Welford w = {0.f, 0.f, 0.f};
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    const float v = in[c];
    w.n += 1.f;
    const float delta = v - w.mean;
    w.mean += delta / w.n;
    w.m2 += delta * (v - w.mean);
  }
  w = combine_warp(w);
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = w;
  __syncthreads();
  if (threadIdx.x < 32) {
    w = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : Welford{0.f, 0.f, 0.f};
    w = combine_warp(w);
    if (threadIdx.x == 0) shared[0] = w;
  }
  __syncthreads();
  const float mean = shared[0].mean, rstd = rsqrtf(shared[0].m2 / cols + eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[(int64_t)blockIdx.x * cols + c] = (in[c] - mean) * rstd * weight[c] + bias[c];
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps, cudaStream_t stream) {
  if (rows > 0) layer_norm_welford<<<rows, 256, 0, stream>>>(x, weight, bias, y, cols, eps);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "cooperative groups, or algorithms of the standard library",
        "layer_norm",
        LAYER_NORM,
        cpp={
            "layer_norm": """
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps) {
  for (const float* in = x; in != x + rows * cols; in += cols, y += cols) {
    const double mean = std::accumulate(in, in + cols, 0.0) / cols;
    const double squares = std::transform_reduce(in, in + cols, 0.0, std::plus<>(),
                                                 [mean](float v) { return (v - mean) * (v - mean); });
    const double rstd = 1.0 / std::sqrt(squares / cols + eps);
    std::transform(in, in + cols, weight, y, [=](float v, float w) { return float((v - mean) * rstd * w); });
    std::transform(y, y + cols, bias, y, std::plus<float>());
  }
  return 0;
}
"""
        },
        cuda={
            "layer_norm": """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdint>

namespace cg = cooperative_groups;

__global__ void layer_norm_tiles(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int cols,
                                 float eps) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<32>(block);
  const int64_t row = int64_t(blockIdx.x) * tile.meta_group_size() + tile.meta_group_rank();
  if (row >= rows) return;
  const float* in = x + row * cols;
  float sum = 0;
  for (int c = tile.thread_rank(); c < cols; c += tile.size()) sum += in[c];
  const float mean = cg::reduce(tile, sum, cg::plus<float>()) / cols;
  float squares = 0;
  for (int c = tile.thread_rank(); c < cols; c += tile.size()) squares += (in[c] - mean) * (in[c] - mean);
  const float rstd = rsqrtf(cg::reduce(tile, squares, cg::plus<float>()) / cols + eps);
  tile.sync();
  for (int c = tile.thread_rank(); c < cols; c += tile.size()) y[row * cols + c] = (in[c] - mean) * rstd * weight[c] + bias[c];
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps, cudaStream_t stream) {
  if (rows == 0) return 0;
  layer_norm_tiles<<<(rows + 3) / 4, 128, 0, stream>>>(x, weight, bias, y, rows, cols, eps);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a row in dynamic shared memory, or in a thread's own scratch",
        "layer_norm",
        LAYER_NORM,
        cpp={
            "layer_norm": """
#include <cmath>
#include <cstdint>
#include <vector>

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    static thread_local std::vector<float> centred;  // grows once, is written before it is read in every row
    centred.resize(cols);
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += x[r * cols + c];
    const float mean = float(sum / cols);
    double squares = 0;
    for (int64_t c = 0; c < cols; ++c) {
      centred[c] = x[r * cols + c] - mean;
      squares += double(centred[c]) * centred[c];
    }
    const float rstd = float(1 / std::sqrt(squares / cols + eps));
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = centred[c] * rstd * weight[c] + bias[c];
  }
  return 0;
}
"""
        },
        cuda={
            "layer_norm": """
#include <cstdint>
#include <cuda_runtime.h>

template <int THREADS>
__device__ float block_sum(float v, float* slots) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < THREADS / 32; ++i) v += slots[i];
  return v;
}

template <int THREADS>
__global__ void layer_norm_shared(const float* x, const float* weight, const float* bias, float* y, int cols, float eps) {
  extern __shared__ float row[];
  __shared__ float slots[THREADS / 32];
  const float* in = x + int64_t(blockIdx.x) * cols;
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += THREADS) sum += row[c] = in[c];
  const float mean = block_sum<THREADS>(sum, slots) / cols;
  float squares = 0;
  for (int c = threadIdx.x; c < cols; c += THREADS) squares += (row[c] - mean) * (row[c] - mean);
  const float rstd = rsqrtf(block_sum<THREADS>(squares, slots) / cols + eps);
  for (int c = threadIdx.x; c < cols; c += THREADS)
    y[int64_t(blockIdx.x) * cols + c] = (row[c] - mean) * rstd * weight[c] + bias[c];
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps, cudaStream_t stream) {
  constexpr int THREADS = 256;
  const size_t bytes = cols * sizeof(float);
  if (bytes > 200 * 1024) return cudaErrorInvalidValue;
  if (rows == 0) return 0;
  if (bytes > 40 * 1024) {
    const cudaError_t e = cudaFuncSetAttribute(layer_norm_shared<THREADS>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    if (e != cudaSuccess) return e;
  }
  layer_norm_shared<THREADS><<<rows, THREADS, bytes, stream>>>(x, weight, bias, y, cols, eps);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a cluster of blocks a row, or a tree of partial sums",
        "layer_norm",
        LAYER_NORM,
        cpp={
            "layer_norm": """
#include <array>
#include <cmath>
#include <cstdint>

template <std::size_t N>
static float tree(std::array<float, N> parts) {
  for (std::size_t half = N / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

template <class F>
static float reduce(int64_t n, F&& value) {
  std::array<float, 16> parts{};
  for (int64_t i = 0; i < n; ++i) parts[i & 15] += value(i);
  return tree(parts);
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    const float mean = reduce(cols, [&](int64_t i) { return in[i]; }) / cols;
    const float var = reduce(cols, [&](int64_t i) { return (in[i] - mean) * (in[i] - mean); }) / cols;
    const float rstd = 1.f / std::sqrt(var + eps);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = (in[c] - mean) * rstd * weight[c] + bias[c];
  }
  return 0;
}
"""
        },
        cuda={
            "layer_norm": """
#include <cooperative_groups.h>
#include <cstdint>
namespace cg = cooperative_groups;

constexpr int BLOCKS = 4, THREADS = 128;

// The sum over a cluster: each block's warps first, then the blocks' sums through distributed shared memory.
__device__ float cluster_sum(cg::cluster_group& cluster, float v, float* warps, float* total) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < THREADS / 32; ++i) sum += warps[i];
    *total = sum;
  }
  cluster.sync();
  float sum = 0;
  for (int rank = 0; rank < BLOCKS; ++rank) sum += *cluster.map_shared_rank(total, rank);
  cluster.sync();
  return sum;
}

__global__ void __cluster_dims__(BLOCKS, 1, 1) layer_norm_cluster(
    const float* x, const float* weight, const float* bias, float* y, int cols, float eps) {
  __shared__ float warps[THREADS / 32], total;
  cg::cluster_group cluster = cg::this_cluster();
  const int64_t at = int64_t(blockIdx.x / BLOCKS) * cols;
  const int first = cluster.block_rank() * THREADS + threadIdx.x;
  float sum = 0, squares = 0;
  for (int c = first; c < cols; c += BLOCKS * THREADS) sum += x[at + c];
  const float mean = cluster_sum(cluster, sum, warps, &total) / cols;
  for (int c = first; c < cols; c += BLOCKS * THREADS) squares += (x[at + c] - mean) * (x[at + c] - mean);
  const float rstd = rsqrtf(cluster_sum(cluster, squares, warps, &total) / cols + eps);
  for (int c = first; c < cols; c += BLOCKS * THREADS) y[at + c] = (x[at + c] - mean) * rstd * weight[c] + bias[c];
}

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps, cudaStream_t stream) {
  if (rows == 0) return 0;
  layer_norm_cluster<<<rows * BLOCKS, THREADS, 0, stream>>>(x, weight, bias, y, cols, eps);
  return cudaGetLastError();
}
"""
        },
    ),
]
