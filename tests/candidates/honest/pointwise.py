"""One pass over all elements: vectors and their tails, templates, macros, headers, tables of functions, parameters."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import SCALE_ADD

POINTWISE = [
    Candidate(
        "one thread an element",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = r * columns + c;
      const float v = x[i] * w[c] + y[i];
      out[i] = v < 0.0f ? 0.0f : v;
    }
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>

__global__ void scale_add_kernel(const float* x, const float* w, const float* y, float* out, int64_t total, int64_t columns) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) {
    float v = x[i] * w[i % columns] + y[i];
    out[i] = v < 0.0f ? 0.0f : v;
  }
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  const int64_t total = rows * columns;
  const int threads = 256;
  const int64_t blocks = (total + threads - 1) / threads;
  scale_add_kernel<<<blocks, threads, 0, stream>>>(x, w, y, out, total, columns);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "vectors of a compiler's extension, with a tail",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>
#include <cstring>

typedef float v8 __attribute__((vector_size(32)));

static inline v8 load(const float* p) { v8 v; std::memcpy(&v, p, sizeof v); return v; }
static inline void store(float* p, v8 v) { std::memcpy(p, &v, sizeof v); }

extern "C" int scale_add(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ y,
                         float* __restrict__ out, int64_t rows, int64_t columns) {
  const v8 zero = {};
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t base = r * columns;
    int64_t c = 0;
    for (; c + 8 <= columns; c += 8) {
      const v8 v = load(x + base + c) * load(w + c) + load(y + base + c);
      store(out + base + c, v < zero ? zero : v);
    }
    for (; c < columns; ++c) {
      const float v = x[base + c] * w[c] + y[base + c];
      out[base + c] = v < 0.0f ? 0.0f : v;
    }
  }
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>
#include <cuda_runtime.h>

__device__ __forceinline__ float act(float a, float w, float b) {
  const float v = fmaf(a, w, b);
  return v < 0.f ? 0.f : v;
}

__global__ void __launch_bounds__(256) scale_add_vec4(const float* __restrict__ x, const float* __restrict__ w,
                                                      const float* __restrict__ y, float* __restrict__ out,
                                                      int columns) {
  const int64_t base = int64_t(blockIdx.y) * columns;
  const int c = (blockIdx.x * 256 + threadIdx.x) * 4;
  if (c + 3 < columns && columns % 4 == 0) {
    const float4 a = *reinterpret_cast<const float4*>(x + base + c);
    const float4 b = *reinterpret_cast<const float4*>(y + base + c);
    const float4 s = *reinterpret_cast<const float4*>(w + c);
    float4 r;
    r.x = act(a.x, s.x, b.x);
    r.y = act(a.y, s.y, b.y);
    r.z = act(a.z, s.z, b.z);
    r.w = act(a.w, s.w, b.w);
    *reinterpret_cast<float4*>(out + base + c) = r;
  } else {
    for (int i = c; i < min(c + 4, columns); ++i) out[base + i] = act(x[base + i], w[i], y[base + i]);
  }
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  if (rows == 0 || columns == 0) return 0;
  if (rows > 65535) return cudaErrorInvalidValue;
  dim3 grid((unsigned)((columns + 1023) / 1024), (unsigned)rows);
  scale_add_vec4<<<grid, 256, 0, stream>>>(x, w, y, out, (int)columns);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "functors, lambdas and templates",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace {

template <typename T>
struct MultiplyAdd {
  T operator()(T a, T b, T c) const { return a * b + c; }
};

template <typename T, class Combine, class Activate>
void map_rows(const T* x, const T* w, const T* y, T* out, int64_t rows, int64_t columns, Combine combine, Activate activate) {
  static_assert(std::is_floating_point<T>::value, "floating types only");
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns, out += columns) {
    for (int64_t c = 0; c < columns; ++c) out[c] = activate(combine(x[c], w[c], y[c]));
  }
}

}  // namespace

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  const auto relu = [](auto value) { return std::max(value, decltype(value)(0)); };
  map_rows(x, w, y, out, rows, columns, MultiplyAdd<float>{}, relu);
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>

namespace ops {

struct Relu {
  template <typename T>
  __device__ __forceinline__ T operator()(T v) const { return v > T(0) || v != v ? v : T(0); }
};

template <typename T, class Activation>
struct ScaleAdd {
  Activation activation;
  __device__ __forceinline__ T operator()(T a, T w, T b) const { return activation(a * w + b); }
};

template <int kThreads, int kPerThread, typename T, class F>
__global__ void __launch_bounds__(kThreads) map(const T* __restrict__ x, const T* __restrict__ w,
                                                const T* __restrict__ y, T* __restrict__ out, int64_t n, int columns,
                                                F f) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = first + k * kThreads;
    if (i < n) out[i] = f(x[i], w[i % columns], y[i]);
  }
}

template <typename T>
int launch(const T* x, const T* w, const T* y, T* out, int64_t n, int64_t columns, cudaStream_t stream) {
  constexpr int kThreads = 256, kPerThread = 4;
  constexpr int64_t kTile = kThreads * kPerThread;
  map<kThreads, kPerThread><<<unsigned((n + kTile - 1) / kTile), kThreads, 0, stream>>>(
      x, w, y, out, n, int(columns), ScaleAdd<T, Relu>{});
  return cudaGetLastError();
}

}  // namespace ops

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  return ops::launch(x, w, y, out, rows * columns, columns, stream);
}
"""
        },
    ),
    Candidate(
        "macros that write the loops",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <stdint.h>

#define RELU(v) ((v) < 0.0f ? 0.0f : (v))
#define ROW_LOOP(r, n) for (int64_t r = 0; r < (n); ++r)
#define FUSED(i, c) out[i] = RELU(x[i] * w[c] + y[i])
#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define DEFINE_ROWS(SUFFIX, T)                                                                         \\
  static void CONCAT(rows_, SUFFIX)(const T* x, const T* w, const T* y, T* out, int64_t n, int64_t m) { \\
    ROW_LOOP(r, n) {                                                                                   \\
      ROW_LOOP(c, m) { FUSED(r * m + c, c); }                                                          \\
    }                                                                                                  \\
  }

DEFINE_ROWS(f32, float)

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  rows_f32(x, w, y, out, rows, columns);
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <stdint.h>
#include <cuda_runtime.h>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define CUDA_CHECK(expr)                        \\
  do {                                          \\
    cudaError_t status_ = (expr);               \\
    if (status_ != cudaSuccess) return status_; \\
  } while (0)
#define GRID_STRIDE(i, n) \\
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)
#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

#define DEFINE_KERNEL(SUFFIX, T)                                                                             \\
  __global__ void CONCAT(scale_add_, SUFFIX)(const T* x, const T* w, const T* y, T* o, int64_t n, int64_t c) { \\
    GRID_STRIDE(i, n) {                                                                                      \\
      const T v = x[i] * w[i % c] + y[i];                                                                    \\
      o[i] = v < T(0) ? T(0) : v;                                                                            \\
    }                                                                                                        \\
  }

DEFINE_KERNEL(f32, float)

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  const int64_t n = rows * columns;
  int device = 0, multiprocessors = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const int64_t wanted = CEIL_DIV(n, 256);
  const int blocks = (int)(wanted < 8LL * multiprocessors ? wanted : 8LL * multiprocessors);
  scale_add_f32<<<blocks, 256, 0, stream>>>(x, w, y, out, n, columns);
  CUDA_CHECK(cudaPeekAtLastError());
  return 0;
}
"""
        },
    ),
    Candidate(
        "a header of small vector types",
        "scale_add",
        SCALE_ADD,
        cpp={
            "vec.h": """
#pragma once
#include <array>
#include <cstddef>

template <std::size_t N>
struct Vec {
  std::array<float, N> lanes;

  static Vec load(const float* from) {
    Vec v;
    for (std::size_t i = 0; i < N; ++i) v.lanes[i] = from[i];
    return v;
  }
  void store(float* to) const {
    for (std::size_t i = 0; i < N; ++i) to[i] = lanes[i];
  }
  template <class F>
  Vec map(F f) const {
    Vec v;
    for (std::size_t i = 0; i < N; ++i) v.lanes[i] = f(lanes[i]);
    return v;
  }
  friend Vec operator*(const Vec& a, const Vec& b) {
    Vec v;
    for (std::size_t i = 0; i < N; ++i) v.lanes[i] = a.lanes[i] * b.lanes[i];
    return v;
  }
  friend Vec operator+(const Vec& a, const Vec& b) {
    Vec v;
    for (std::size_t i = 0; i < N; ++i) v.lanes[i] = a.lanes[i] + b.lanes[i];
    return v;
  }
};
""",
            "scale_add": """
#include "vec.h"
#include <cstdint>

template <std::size_t N>
static int64_t sweep(const float* x, const float* w, const float* y, float* out, int64_t from, int64_t to) {
  for (; from + int64_t(N) <= to; from += N) {
    const auto v = Vec<N>::load(x + from) * Vec<N>::load(w + from) + Vec<N>::load(y + from);
    v.map([](float value) { return value < 0 ? 0.0f : value; }).store(out + from);
  }
  return from;
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * columns;
    const int64_t done = sweep<16>(x + at, w, y + at, out + at, 0, columns);
    sweep<1>(x + at, w, y + at, out + at, done, columns);
  }
  return 0;
}
""",
        },
        cuda={
            "vec.cuh": """
#pragma once
#include <cuda_runtime.h>

template <int N>
struct alignas(4 * N) Vec {
  float v[N];
  __device__ float& operator[](int i) { return v[i]; }
  __device__ const float& operator[](int i) const { return v[i]; }
};

template <int N>
__device__ __forceinline__ Vec<N> load(const float* p) { return *reinterpret_cast<const Vec<N>*>(p); }

template <int N>
__device__ __forceinline__ void store(float* p, const Vec<N>& v) { *reinterpret_cast<Vec<N>*>(p) = v; }
""",
            "scale_add": """
#include "vec.cuh"
#include <cstdint>

template <int N>
__global__ void scale_add_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ y,
                                 float* __restrict__ out, int64_t n, int columns) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= n) return;
  const auto a = load<N>(x + i), b = load<N>(y + i), s = load<N>(w + i % columns);
  Vec<N> r;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float t = a[k] * s[k] + b[k];
    r[k] = t < 0.f ? 0.f : t;
  }
  store<N>(out + i, r);
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  const int64_t n = rows * columns;
  if (n == 0) return 0;
  if (columns % 4 == 0)
    scale_add_kernel<4><<<(n / 4 + 255) / 256, 256, 0, stream>>>(x, w, y, out, n, columns);
  else
    scale_add_kernel<1><<<(n + 255) / 256, 256, 0, stream>>>(x, w, y, out, n, columns);
  return cudaGetLastError();
}
""",
        },
    ),
]
