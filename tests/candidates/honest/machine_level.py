"""Close to the machine: assembly, intrinsics, prefetch, asynchronous copies, packed types."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import SCALE_ADD

MACHINE_LEVEL = [
    Candidate(
        "inline assembly for loads, fma and max",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__)
static inline void eight(const float* x, const float* w, const float* y, float* out) {
  asm volatile(
      "vmovups (%0), %%ymm0\\n\\t"
      "vmovups (%2), %%ymm2\\n\\t"
      "vfmadd132ps (%1), %%ymm2, %%ymm0\\n\\t"
      "vxorps %%ymm1, %%ymm1, %%ymm1\\n\\t"
      "vmaxps %%ymm0, %%ymm1, %%ymm0\\n\\t"  // the second operand wins where one is NaN
      "vmovups %%ymm0, (%3)\\n\\t"
      :
      : "r"(x), "r"(w), "r"(y), "r"(out)
      : "ymm0", "ymm1", "ymm2", "memory");
}
#else
static inline void eight(const float* x, const float* w, const float* y, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float v = x[i] * w[i] + y[i];
    out[i] = v < 0.0f ? 0.0f : v;
  }
}
#endif

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  if (columns % 8 != 0) return 1;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; c += 8) eight(x + r * columns + c, w + c, y + r * columns + c, out + r * columns + c);
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>
#include <cuda_runtime.h>

__device__ __forceinline__ float4 ld_nc(const float* p) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p));
  return v;
}

__device__ __forceinline__ void st_cs(float* p, float4 v) {
  asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

__device__ __forceinline__ float fma_relu(float a, float b, float c) {
  float r;
  asm("{\\n\\t.reg .f32 t;\\n\\tfma.rn.f32 t, %1, %2, %3;\\n\\tmax.NaN.f32 %0, t, 0f00000000;\\n\\t}"
      : "=f"(r)
      : "f"(a), "f"(b), "f"(c));
  return r;
}

__global__ void __launch_bounds__(256) scale_add_ptx(const float* x, const float* w, const float* y, float* out,
                                                     int64_t quads, unsigned quads_per_row) {
  unsigned bx, tx;
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(bx));
  asm("mov.u32 %0, %%tid.x;" : "=r"(tx));
  const int64_t i = int64_t(bx) * 256 + tx;
  if (i >= quads) return;
  const float4 a = ld_nc(x + 4 * i), b = ld_nc(y + 4 * i);
  const float4 s = ld_nc(w + 4 * (i % quads_per_row));
  st_cs(out + 4 * i, make_float4(fma_relu(a.x, s.x, b.x), fma_relu(a.y, s.y, b.y), fma_relu(a.z, s.z, b.z),
                                 fma_relu(a.w, s.w, b.w)));
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  if (columns % 4) return cudaErrorInvalidValue;
  const int64_t quads = rows * columns / 4;
  if (!quads) return cudaSuccess;
  scale_add_ptx<<<(quads + 255) / 256, 256, 0, stream>>>(x, w, y, out, quads, columns / 4);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "intrinsics with masks and cache hints",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns, out += columns) {
    int64_t c = 0;
#if defined(__AVX512F__)
    const __m512 zero = _mm512_setzero_ps();
    for (; c < columns; c += 16) {
      const int64_t left = columns - c;
      const __mmask16 mask = left >= 16 ? __mmask16(0xffff) : __mmask16((1u << left) - 1);
      const __m512 v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x + c), _mm512_maskz_loadu_ps(mask, w + c),
                                       _mm512_maskz_loadu_ps(mask, y + c));
      _mm512_mask_storeu_ps(out + c, mask, _mm512_max_ps(zero, v));
    }
#elif defined(__AVX2__) && defined(__FMA__)
    const __m256 zero = _mm256_setzero_ps();
    for (; c + 8 <= columns; c += 8) {
      const __m256 v = _mm256_fmadd_ps(_mm256_loadu_ps(x + c), _mm256_loadu_ps(w + c), _mm256_loadu_ps(y + c));
      _mm256_storeu_ps(out + c, _mm256_max_ps(zero, v));
    }
#endif
    for (; c < columns; ++c) {
      const float v = x[c] * w[c] + y[c];
      out[c] = v < 0.0f ? 0.0f : v;
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

static constexpr unsigned kBlock = 512;

__global__ void __launch_bounds__(kBlock, 4)
scale_add_hints(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ y,
                float* __restrict__ out, const uint32_t n, const uint32_t columns) {
  const uint32_t i = __umul24(blockIdx.x, kBlock) + threadIdx.x;
  if (i >= n) return;
  const float v = __fmaf_rn(__ldcs(x + i), __ldg(w + i % columns), __ldcs(y + i));
  __stcs(out + i, signbit(v) && !isnan(v) ? 0.0f : v);
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  const int64_t n = rows * columns;
  if (n <= 0) return n == 0 ? cudaSuccess : cudaErrorInvalidValue;
  if (n / kBlock >= (1 << 24)) return cudaErrorInvalidValue;
  scale_add_hints<<<static_cast<unsigned>((n + kBlock - 1) / kBlock), kBlock, 0, stream>>>(
      x, w, y, out, static_cast<uint32_t>(n), static_cast<uint32_t>(columns));
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a pipeline of asynchronous copies, or prefetch",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  constexpr int64_t AHEAD = 256, LINE = 16;
  const int64_t total = rows * columns;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; c += LINE) {
      const int64_t i = r * columns + c;
      if (__builtin_expect(i + AHEAD < total, 1)) {
        __builtin_prefetch(x + i + AHEAD, 0, 0);
        __builtin_prefetch(y + i + AHEAD, 0, 0);
      }
      const int64_t end = c + LINE < columns ? c + LINE : columns;
#pragma GCC ivdep
      for (int64_t k = c; k < end; ++k) {
        const float v = x[r * columns + k] * w[k] + y[r * columns + k];
        out[r * columns + k] = v < 0.0f ? 0.0f : v;
      }
    }
  }
  return 0;
}
"""
        },
        cuda={
            "scale_add": """
#include <cstdint>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int THREADS = 128;
constexpr int STAGES = 3;

// A block walks over tiles of THREADS float4; STAGES - 1 of them are on their way while one is computed.
__global__ void __launch_bounds__(THREADS) scale_add_pipelined(
    const float4* __restrict__ x, const float4* __restrict__ w, const float4* __restrict__ y, float4* __restrict__ out,
    int64_t quads, int quads_per_row) {
  __shared__ float4 xs[STAGES][THREADS], ys[STAGES][THREADS];
  const int64_t tiles = (quads + THREADS - 1) / THREADS;
  const int64_t mine = blockIdx.x < tiles ? (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;

  auto fetch = [&](int64_t k) {
    const int64_t i = (blockIdx.x + k * gridDim.x) * THREADS + threadIdx.x;
    if (k < mine && i < quads) {
      __pipeline_memcpy_async(&xs[k % STAGES][threadIdx.x], x + i, sizeof(float4));
      __pipeline_memcpy_async(&ys[k % STAGES][threadIdx.x], y + i, sizeof(float4));
    }
    __pipeline_commit();
  };

  for (int k = 0; k < STAGES - 1; ++k) fetch(k);
  for (int64_t k = 0; k < mine; ++k) {
    fetch(k + STAGES - 1);
    __pipeline_wait_prior(STAGES - 1);
    const int64_t i = (blockIdx.x + k * gridDim.x) * THREADS + threadIdx.x;
    if (i < quads) {  // a thread reads only what it asked for itself, so no barrier is needed
      const float4 a = xs[k % STAGES][threadIdx.x], b = ys[k % STAGES][threadIdx.x], s = w[i % quads_per_row];
      float4 r = {a.x * s.x + b.x, a.y * s.y + b.y, a.z * s.z + b.z, a.w * s.w + b.w};
      r = {r.x < 0 ? 0 : r.x, r.y < 0 ? 0 : r.y, r.z < 0 ? 0 : r.z, r.w < 0 ? 0 : r.w};
      out[i] = r;
    }
  }
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  if (columns % 4) return cudaErrorInvalidValue;
  const int64_t quads = rows * columns / 4;
  if (quads == 0) return 0;
  const int64_t tiles = (quads + THREADS - 1) / THREADS;
  const unsigned blocks = tiles < 132 * 8 ? tiles : 132 * 8;
  scale_add_pipelined<<<blocks, THREADS, 0, stream>>>(
      (const float4*)x, (const float4*)w, (const float4*)y, (float4*)out, quads, columns / 4);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "bulk copies of rows with a barrier in shared memory",
        "scale_add",
        SCALE_ADD,
        cuda={
            "scale_add": """
#include <cstdint>
#include <cuda_runtime.h>

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrier_init(uint64_t* bar, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_expect(uint64_t* bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t* bar, unsigned phase) {
  asm volatile(
      "{\\n.reg .pred done;\\n"
      "AGAIN_%=:\\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"
      "@!done bra AGAIN_%=;\\n}" ::"r"(shared_address(bar)), "r"(phase) : "memory");
}

__device__ __forceinline__ void bulk_load(void* to, const void* from, unsigned bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(bar)) : "memory");
}

__device__ __forceinline__ void bulk_store(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void __launch_bounds__(256) scale_add_bulk(const float* x, const float* w, const float* y, float* out, int columns) {
  extern __shared__ __align__(128) float rows[];
  __shared__ uint64_t bar;
  float* xs = rows;
  float* ys = rows + columns;
  const int64_t at = int64_t(blockIdx.x) * columns;
  const unsigned bytes = columns * sizeof(float);
  if (threadIdx.x == 0) {
    barrier_init(&bar, 1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_expect(&bar, 2 * bytes);
    bulk_load(xs, x + at, bytes, &bar);
    bulk_load(ys, y + at, bytes, &bar);
  }
  __syncthreads();
  barrier_wait(&bar, 0);
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    const float v = xs[c] * w[c] + ys[c];
    xs[c] = v < 0.f ? 0.f : v;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) bulk_store(out + at, xs, bytes);
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {
  if (columns % 4 != 0 || columns > 6000) return cudaErrorInvalidValue;
  if (rows * columns == 0) return 0;
  scale_add_bulk<<<rows, 256, 2 * columns * sizeof(float), stream>>>(x, w, y, out, columns);
  return cudaGetLastError();
}
"""
        },
    ),
]
