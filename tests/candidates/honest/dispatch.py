"""How launchers choose: tables of functions, switches, parameters in structs, occupancy, checks and debug blocks."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import SCALE_ADD, SOFTMAX

DISPATCH = [
    Candidate(
        "a table of function pointers by width",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <array>
#include <cstdint>

namespace {

using RowFunction = void (*)(const float*, const float*, const float*, float*, int64_t);

template <int UNROLL>
void row(const float* x, const float* w, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += UNROLL)
#pragma GCC unroll 8
    for (int k = 0; k < UNROLL; ++k) {
      const float v = x[i + k] * w[i + k] + y[i + k];
      out[i + k] = v < 0 ? 0 : v;
    }
}

constexpr std::array<RowFunction, 4> BY_LOG2 = {row<1>, row<2>, row<4>, row<8>};

}  // namespace

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  if (columns == 0) return 0;
  int log2 = 0;
  while (log2 < 3 && columns % (2 << log2) == 0) ++log2;
  const RowFunction function = BY_LOG2[log2];
  for (int64_t r = 0; r < rows; ++r) function(x + r * columns, w, y + r * columns, out + r * columns, columns);
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>
#include <cuda_runtime.h>

template <int kPer>
__global__ void kernel(const float* x, const float* w, const float* y, float* out, int64_t n, int columns) {
  const int64_t base = (int64_t)blockIdx.x * blockDim.x * kPer + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t i = base + (int64_t)k * blockDim.x;
    if (i < n) {
      const float v = x[i] * w[i % columns] + y[i];
      out[i] = v < 0 ? 0 : v;
    }
  }
}

using Kernel = void (*)(const float*, const float*, const float*, float*, int64_t, int);

struct Choice {
  int64_t least;  // elements from which it pays
  int per_thread, threads;
  Kernel function;
};

static const Choice kChoices[] = {
    {int64_t(1) << 22, 8, 256, kernel<8>},
    {int64_t(1) << 18, 4, 256, kernel<4>},
    {int64_t(1) << 12, 2, 128, kernel<2>},
    {0, 1, 128, kernel<1>},
};

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  const int64_t n = rows * columns;
  if (n == 0) return 0;
  for (const Choice& choice : kChoices) {
    if (n < choice.least) continue;
    const int64_t tile = int64_t(choice.per_thread) * choice.threads;
    choice.function<<<(n + tile - 1) / tile, choice.threads, 0, stream>>>(x, w, y, out, n, columns);
    return cudaGetLastError();
  }
  return cudaErrorInvalidValue;
}
"""
        },
    ),
    Candidate(
        "parameters in a struct, passed by value",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>

struct Params {
  const float* x;
  const float* w;
  const float* y;
  float* out;
  int64_t rows, columns;
};

static void run(Params p) {
  for (int64_t r = 0; r < p.rows; ++r) {
#pragma omp simd
    for (int64_t c = 0; c < p.columns; ++c) {
      const int64_t i = r * p.columns + c;
      const float v = p.x[i] * p.w[c] + p.y[i];
      p.out[i] = v < 0.0f ? 0.0f : v;
    }
  }
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  Params params{};
  params.x = x, params.w = w, params.y = y, params.out = out;
  params.rows = rows, params.columns = columns;
  run(params);
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>
#include <cuda_runtime.h>

struct Params {
  const float* __restrict__ x;
  const float* __restrict__ w;
  const float* __restrict__ y;
  float* __restrict__ out;
  int64_t n;
  int columns;
};

// A grid that stays resident and walks over the elements; its size comes from the occupancy of the kernel.
__global__ void resident(const __grid_constant__ Params p) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += step) {
    const float v = p.x[i] * p.w[i % p.columns] + p.y[i];
    p.out[i] = v < 0.0f ? 0.0f : v;
  }
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  int device, sms, blocks, least_grid, threads;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaOccupancyMaxPotentialBlockSize(&least_grid, &threads, resident, 0, 512);
  if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, resident, threads, 0);
  if (error != cudaSuccess) return error;
  const Params p = {x, w, y, out, rows * columns, (int)columns};
  void* arguments[] = {(void*)&p};
  return cudaLaunchKernel((const void*)resident, dim3(sms * blocks), dim3(threads), arguments, 0, stream);
}
"""
        },
    ),
    Candidate(
        "assertions and a debug block that prints",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cassert>
#include <cstdint>
#include <cstdio>

#ifdef SCALE_ADD_DEBUG
#define DEBUG_PRINT(...) std::fprintf(stderr, "[scale_add] " __VA_ARGS__)
#else
#define DEBUG_PRINT(...) ((void)0)
#endif

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  assert(x && w && y && out);
  assert(rows >= 0 && columns >= 0);
  DEBUG_PRINT("%lld x %lld\\n", (long long)rows, (long long)columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float v = x[i] * w[i % columns] + y[i];
#ifndef NDEBUG
    assert(i % columns < columns);
#endif
    out[i] = v < 0 ? 0 : v;
  }
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cassert>
#include <cstdint>
#include <cstdio>

#define CHECK_LAUNCH()                                                                              \\
  do {                                                                                              \\
    cudaError_t e = cudaGetLastError();                                                             \\
    if (e != cudaSuccess) {                                                                         \\
      fprintf(stderr, "%s:%d: %s\\n", __FILE__, __LINE__, cudaGetErrorString(e));                    \\
      return (int)e;                                                                                \\
    }                                                                                               \\
  } while (0)

__global__ void scale_add_kernel(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t columns) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  assert(blockDim.x == 256);
#if defined(DEBUG_KERNEL)
  if (i == 0) printf("scale_add: n=%lld columns=%lld\\n", (long long)n, (long long)columns);
#endif
  if (i >= n) return;
  const float v = x[i] * w[i % columns] + y[i];
  out[i] = v < 0 ? 0 : v;
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  const int64_t n = rows * columns;
  if (n == 0) return 0;
  scale_add_kernel<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(x, w, y, out, n, columns);
  CHECK_LAUNCH();
  return 0;
}
"""
        },
    ),
    Candidate(
        "a switch over the size of a row",
        "softmax",
        SOFTMAX,
        cpp={
            "softmax": """
#include <algorithm>
#include <cmath>
#include <cstdint>

template <int TILE>
static void softmax_row(const float* in, float* out, int64_t n) {
  float best[TILE];
  std::fill_n(best, TILE, -INFINITY);
  for (int64_t i = 0; i < n; ++i) best[i % TILE] = std::max(best[i % TILE], in[i]);
  const float top = *std::max_element(best, best + TILE);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += out[i] = std::exp(in[i] - top);
  const float scale = static_cast<float>(1.0 / total);
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

extern "C" int softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  enum class Size { small, middle, large };
  const Size size = columns <= 64 ? Size::small : columns <= 1024 ? Size::middle : Size::large;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * columns;
    float* to = out + r * columns;
    switch (size) {
      case Size::small: softmax_row<4>(in, to, columns); break;
      case Size::middle: softmax_row<16>(in, to, columns); break;
      case Size::large: softmax_row<32>(in, to, columns); break;
    }
  }
  return 0;
}
"""
        },
        cuda={
            "softmax": """
#include <cfloat>
#include <cstdint>
#include <cuda_runtime.h>

// A block owns a row and keeps it in registers; PER elements a thread.
template <int PER, int THREADS>
__global__ void __launch_bounds__(THREADS) softmax_kernel(const float* __restrict__ x, float* __restrict__ out, int columns) {
  __shared__ float slots[2][32];
  const float* in = x + (int64_t)blockIdx.x * columns;
  float* to = out + (int64_t)blockIdx.x * columns;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v[PER], top = -INFINITY;
#pragma unroll
  for (int k = 0; k < PER; ++k) {
    const int c = k * THREADS + threadIdx.x;
    v[k] = c < columns ? in[c] : -INFINITY;
    top = fmaxf(top, v[k]);
  }
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
  if (lane == 0) slots[0][warp] = top;
  __syncthreads();
  top = lane < THREADS / 32 ? slots[0][lane] : -INFINITY;
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
  float sum = 0;
#pragma unroll
  for (int k = 0; k < PER; ++k) sum += v[k] = expf(v[k] - top);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
  if (lane == 0) slots[1][warp] = sum;
  __syncthreads();
  sum = lane < THREADS / 32 ? slots[1][lane] : 0;
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
#pragma unroll
  for (int k = 0; k < PER; ++k) {
    const int c = k * THREADS + threadIdx.x;
    if (c < columns) to[c] = v[k] / sum;
  }
}

extern "C" int softmax(const float* x, float* out, int64_t rows, int64_t columns, cudaStream_t stream) {
  if (rows == 0) return 0;
  switch ((columns + 255) / 256) {
    case 1: softmax_kernel<1, 256><<<rows, 256, 0, stream>>>(x, out, columns); break;
    case 2: softmax_kernel<2, 256><<<rows, 256, 0, stream>>>(x, out, columns); break;
    case 3: case 4: softmax_kernel<4, 256><<<rows, 256, 0, stream>>>(x, out, columns); break;
    case 5: case 6: case 7: case 8: softmax_kernel<8, 256><<<rows, 256, 0, stream>>>(x, out, columns); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
"""
        },
    ),
]
