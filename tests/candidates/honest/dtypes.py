"""bfloat16, float16 and integers: packed pairs, one template for several types, exact counts."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import INTEGER, SWIGLU

DTYPES = [
    Candidate(
        "bf16 in packed pairs, computed in fp32",
        "swiglu",
        SWIGLU,
        cpp={
            "swiglu": """
#include <cmath>
#include <cstdint>
#include <cstring>

struct bfloat16 { uint16_t bits; };

static inline float widen(bfloat16 h) {
  const uint32_t bits = uint32_t(h.bits) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

static inline bfloat16 narrow(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (std::isnan(f)) return {0x7fc0};
  return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

extern "C" int swiglu(const bfloat16* gate, const bfloat16* up, bfloat16* out, int64_t n) {
#pragma omp parallel for simd if (n > 65536)
  for (int64_t i = 0; i < n; ++i) {
    const float g = widen(gate[i]);
    out[i] = narrow(g / (1.0f + std::exp(-g)) * widen(up[i]));
  }
  return 0;
}
"""
        },
        cuda={
            "swiglu": """
#include <cstdint>
#include <cuda_bf16.h>

__global__ void swiglu_pairs(const __nv_bfloat162* __restrict__ gate, const __nv_bfloat162* __restrict__ up,
                             __nv_bfloat162* __restrict__ out, int64_t pairs) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < pairs; i += stride) {
    const float2 g = __bfloat1622float2(gate[i]);
    const float2 u = __bfloat1622float2(up[i]);
    out[i] = __float22bfloat162_rn(make_float2(g.x / (1.f + __expf(-g.x)) * u.x, g.y / (1.f + __expf(-g.y)) * u.y));
  }
}

__global__ void swiglu_last(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out, int64_t i) {
  const float g = __bfloat162float(gate[i]);
  out[i] = __float2bfloat16(g / (1.f + __expf(-g)) * __bfloat162float(up[i]));
}

extern "C" int swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out, int64_t n, cudaStream_t stream) {
  if (n / 2 > 0)
    swiglu_pairs<<<132 * 8, 256, 0, stream>>>(reinterpret_cast<const __nv_bfloat162*>(gate),
                                             reinterpret_cast<const __nv_bfloat162*>(up),
                                             reinterpret_cast<__nv_bfloat162*>(out), n / 2);
  if (n % 2) swiglu_last<<<1, 1, 0, stream>>>(gate, up, out, n - 1);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a table made at compile time",
        "integer",
        INTEGER,
        cpp={
            "mix": """
#include <array>
#include <cstdint>

// Whether a byte is odd: the last step of the count, by table.
constexpr std::array<uint8_t, 256> make_odd() {
  std::array<uint8_t, 256> table{};
  for (unsigned i = 0; i < 256; ++i) table[i] = i & 1u;
  return table;
}
static constexpr auto kOdd = make_odd();

extern "C" int mix(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count) {
  int64_t total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t v = uint32_t(x[i] ^ (x[i] >> 3)) * 31u + uint32_t(salt[i]);
    mixed[i] = int32_t(v);
    total += kOdd[v & 0xff];
  }
  *odd = total;
  return 0;
}
"""
        },
        cuda={
            "mix": """
#include <cstdint>

__constant__ uint8_t kOdd[4] = {0, 1, 0, 1};

__global__ void mix_kernel(const int32_t* x, const int32_t* salt, int32_t* mixed, unsigned long long* odd, int64_t count) {
  unsigned mine = 0;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
    const uint32_t v = uint32_t(x[i] ^ (x[i] >> 3)) * 31u + uint32_t(salt[i]);
    mixed[i] = int32_t(v);
    mine += kOdd[v & 3];
  }
  mine = __reduce_add_sync(0xffffffffu, mine);
  if (threadIdx.x % 32 == 0) atomicAdd(odd, (unsigned long long)mine);
}

extern "C" int mix(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count, cudaStream_t stream) {
  cudaError_t status = cudaMemsetAsync(odd, 0, sizeof(*odd), stream);
  if (status != cudaSuccess) return status;
  mix_kernel<<<132 * 4, 256, 0, stream>>>(x, salt, mixed, reinterpret_cast<unsigned long long*>(odd), count);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "launchers of one template for several dtypes",
        "swiglu",
        SWIGLU.replace("import swiglu", "import swiglu_bf16, swiglu_f32").replace(
            "        swiglu(",
            "        swiglu = {torch.bfloat16: swiglu_bf16, torch.float32: swiglu_f32}[gate.dtype]\n        swiglu(",
        ),
        cpp={
            "swiglu": """
#include <cmath>
#include <cstdint>

struct bfloat16 {
  uint16_t bits;
  operator float() const {
    union { uint32_t u; float f; } view{uint32_t(bits) << 16};
    return view.f;
  }
  static bfloat16 of(float f) {
    union { float f; uint32_t u; } view{f};
    if (f != f) return {uint16_t(0x7fc0)};
    const uint32_t rounding = 0x7fffu + ((view.u >> 16) & 1u);
    return {uint16_t((view.u + rounding) >> 16)};
  }
};

template <class T> struct Convert { static T from(float f) { return f; } };
template <> struct Convert<bfloat16> { static bfloat16 from(float f) { return bfloat16::of(f); } };

template <class T>
static int run(const T* gate, const T* up, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = gate[i];
    out[i] = Convert<T>::from(g / (1 + std::exp(-g)) * float(up[i]));
  }
  return 0;
}

extern "C" int swiglu_bf16(const bfloat16* gate, const bfloat16* up, bfloat16* out, int64_t n) { return run(gate, up, out, n); }
extern "C" int swiglu_f32(const float* gate, const float* up, float* out, int64_t n) { return run(gate, up, out, n); }
"""
        },
        cuda={
            "swiglu": """
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

template <typename T>
__device__ float to_float(T v) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(v);
  else return v;
}

template <typename T>
__device__ T from_float(float v) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(v);
  else return v;
}

template <typename T>
__global__ void swiglu_kernel(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float g = to_float(gate[i]);
  out[i] = from_float<T>(g / (1.0f + expf(-g)) * to_float(up[i]));
}

template <typename T>
int run(const T* gate, const T* up, T* out, int64_t n, cudaStream_t stream) {
  if (n) swiglu_kernel<T><<<(n + 255) / 256, 256, 0, stream>>>(gate, up, out, n);
  return cudaGetLastError();
}

extern "C" int swiglu_bf16(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out, int64_t n,
                           cudaStream_t stream) {
  return run(gate, up, out, n, stream);
}

extern "C" int swiglu_f32(const float* gate, const float* up, float* out, int64_t n, cudaStream_t stream) {
  return run(gate, up, out, n, stream);
}
"""
        },
    ),
    Candidate(
        "atomic counters",
        "integer",
        INTEGER,
        cpp={
            "mix": """
#include <atomic>
#include <cstdint>

extern "C" int mix(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count) {
  std::atomic<int64_t> total{0};
#pragma omp parallel
  {
    int64_t mine = 0;
#pragma omp for nowait
    for (int64_t i = 0; i < count; ++i) {
      mixed[i] = static_cast<int32_t>(static_cast<uint32_t>(x[i] ^ (x[i] >> 3)) * 31u + static_cast<uint32_t>(salt[i]));
      mine += mixed[i] & 1;
    }
    total.fetch_add(mine, std::memory_order_relaxed);
  }
  *odd = total.load();
  return 0;
}
"""
        },
        cuda={
            "mix": """
#include <cstdint>
#include <cuda/atomic>

__global__ void clear(int64_t* odd) { *odd = 0; }

__global__ void mix_kernel(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count) {
  __shared__ unsigned of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  bool is_odd = false;
  if (i < count) {
    const uint32_t v = uint32_t(x[i] ^ (x[i] >> 3)) * 31u + uint32_t(salt[i]);
    mixed[i] = int32_t(v);
    is_odd = v & 1;
  }
  const unsigned votes = __popc(__ballot_sync(~0u, is_odd));
  if (threadIdx.x % 32 == 0) atomicAdd(&of_block, votes);
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int64_t, cuda::thread_scope_device> total(*odd);
    total.fetch_add(of_block, cuda::memory_order_relaxed);
  }
}

extern "C" int mix(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count, cudaStream_t stream) {
  clear<<<1, 1, 0, stream>>>(odd);
  if (count) mix_kernel<<<(count + 511) / 512, 512, 0, stream>>>(x, salt, mixed, odd, count);
  return cudaGetLastError();
}
"""
        },
    ),
]
