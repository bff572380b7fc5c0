"""bfloat16 products: WMMA, mma.sync, cuBLAS, split sums; on the CPU wide sums of narrow numbers."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import LINEAR_BF16

BFLOAT16_H = """
#pragma once
#include <cstdint>
#include <cstring>

struct bfloat16 { uint16_t bits; };

inline float to_float(bfloat16 h) {
  const uint32_t wide = static_cast<uint32_t>(h.bits) << 16;
  float f;
  std::memcpy(&f, &wide, sizeof f);
  return f;
}

inline bfloat16 to_bfloat16(float f) {
  uint32_t wide;
  std::memcpy(&wide, &f, sizeof wide);
  if ((wide & 0x7fffffffu) > 0x7f800000u) return {0x7fc0};
  return {static_cast<uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16)};
}
"""

_SPLIT = """
import torch
from torch import nn
from kernels import split_product, finish

SPLITS = 4

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    @torch.no_grad()
    def forward(self, x):
        m, k = x.shape
        n = self.linear.out_features
        sums = torch.empty((m, n), device=x.device)
        out = torch.empty((m, n), device=x.device)
        split_product(x, self.linear.weight, sums, m, n, k, SPLITS)
        finish(sums, self.linear.bias, out, m, n)
        return out
"""

TENSOR_CORES = [
    Candidate(
        "tensor cores by WMMA",
        "linear_bf16",
        LINEAR_BF16,
        cpp={
            "bfloat16.h": BFLOAT16_H,
            "linear_relu": """
#include "bfloat16.h"
#include <vector>

extern "C" int linear_relu(const bfloat16* x, const bfloat16* weight, const bfloat16* bias, bfloat16* out, int64_t m, int64_t n,
                           int64_t k) {
  std::vector<float> row(k), wide(n * k);
  for (int64_t i = 0; i < n * k; ++i) wide[i] = to_float(weight[i]);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) row[p] = to_float(x[i * k + p]);
    for (int64_t j = 0; j < n; ++j) {
      float sum = to_float(bias[j]);
      const float* w = wide.data() + j * k;
#pragma omp simd reduction(+ : sum)
      for (int64_t p = 0; p < k; ++p) sum += row[p] * w[p];
      out[i * n + j] = to_bfloat16(sum < 0 ? 0 : sum);
    }
  }
  return 0;
}
""",
        },
        cuda={
            "linear_relu": """
#include <cstdint>
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

// A warp makes a 16 by 16 tile; four warps a block, side by side. m, n and k are multiples of 16.
__global__ void linear_wmma(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
                            int m, int n, int k) {
  __shared__ float tiles[4][16 * 16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * 16, column = (blockIdx.x * 4 + warp) * 16;
  if (column >= n) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  for (int p = 0; p < k; p += 16) {
    wmma::load_matrix_sync(a, x + (int64_t)row * k + p, k);
    wmma::load_matrix_sync(b, weight + (int64_t)column * k + p, k);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(tiles[warp], c, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    const float v = tiles[warp][i] + __bfloat162float(bias[column + i % 16]);
    out[(int64_t)(row + i / 16) * n + column + i % 16] = __float2bfloat16(v < 0.f ? 0.f : v);
  }
}

extern "C" int linear_relu(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
                           int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
  if (m % 16 || n % 16 || k % 16) return cudaErrorInvalidValue;
  if (m * n == 0) return 0;
  linear_wmma<<<dim3((n + 63) / 64, m / 16), 128, 0, stream>>>(x, weight, bias, out, m, n, k);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "tensor cores by mma.sync and ldmatrix",
        "linear_bf16",
        LINEAR_BF16,
        cpp={
            "linear_relu": """
#include <cstdint>
#include <cstring>
#include <immintrin.h>

struct bfloat16 { uint16_t bits; };

static float dot(const bfloat16* a, const bfloat16* b, int64_t k) {
  int64_t p = 0;
  float sum = 0;
#if defined(__AVX2__) && defined(__FMA__)
  __m256 lanes = _mm256_setzero_ps();
  for (; p + 8 <= k; p += 8) {
    const __m256i wide_a = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(a + p))), 16);
    const __m256i wide_b = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(b + p))), 16);
    lanes = _mm256_fmadd_ps(_mm256_castsi256_ps(wide_a), _mm256_castsi256_ps(wide_b), lanes);
  }
  alignas(32) float parts[8];
  _mm256_store_ps(parts, lanes);
  for (float part : parts) sum += part;
#endif
  for (; p < k; ++p) {
    const uint32_t wide_a = uint32_t(a[p].bits) << 16, wide_b = uint32_t(b[p].bits) << 16;
    float fa, fb;
    memcpy(&fa, &wide_a, 4);
    memcpy(&fb, &wide_b, 4);
    sum += fa * fb;
  }
  return sum;
}

extern "C" int linear_relu(const bfloat16* x, const bfloat16* weight, const bfloat16* bias, bfloat16* out, int64_t m, int64_t n,
                           int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const uint32_t wide_bias = uint32_t(bias[j].bits) << 16;
      float v;
      memcpy(&v, &wide_bias, 4);
      v += dot(x + i * k, weight + j * k, k);
      v = v < 0 ? 0 : v;
      uint32_t bits;
      memcpy(&bits, &v, 4);
      out[i * n + j].bits = v != v ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
  return 0;
}
"""
        },
        cuda={
            "linear_relu": """
#include <cstdint>
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const bf16* p) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void ldmatrix_x2(unsigned (&r)[2], const bf16* p) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

constexpr int BM = 64, BN = 64, BK = 32, PITCH = BK + 8;

// Four warps; each makes 16 rows by 64 columns. m and n are multiples of 64, k of 32.
__global__ void __launch_bounds__(128) linear_mma(const bf16* x, const bf16* weight, const bf16* bias, bf16* out, int n, int k) {
  __shared__ __align__(16) bf16 as[BM][PITCH], bs[BN][PITCH];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  float c[BN / 8][4] = {};
  for (int at = 0; at < k; at += BK) {
    for (int i = threadIdx.x; i < BM * BK / 8; i += 128) {
      const int r = i / (BK / 8), p = i % (BK / 8) * 8;
      *reinterpret_cast<uint4*>(&as[r][p]) = *reinterpret_cast<const uint4*>(x + (row0 + r) * k + at + p);
      *reinterpret_cast<uint4*>(&bs[r][p]) = *reinterpret_cast<const uint4*>(weight + (column0 + r) * k + at + p);
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < BK; p += 16) {
      unsigned a[4];
      ldmatrix_x4(a, &as[warp * 16 + lane % 16][p + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        unsigned b[2];
        ldmatrix_x2(b, &bs[j * 8 + lane % 8][p + lane / 8 % 2 * 8]);
        mma(c[j], a, b);
      }
    }
    __syncthreads();
  }
  const int64_t row = row0 + warp * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    const int64_t column = column0 + j * 8 + lane % 4 * 2;
    const float2 add = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(bias + column));
    for (int half = 0; half < 2; ++half) {
      const float v0 = c[j][2 * half] + add.x, v1 = c[j][2 * half + 1] + add.y;
      *reinterpret_cast<__nv_bfloat162*>(out + (row + 8 * half) * n + column) =
          __floats2bfloat162_rn(v0 < 0.f ? 0.f : v0, v1 < 0.f ? 0.f : v1);
    }
  }
}

extern "C" int linear_relu(const bf16* x, const bf16* weight, const bf16* bias, bf16* out, int64_t m, int64_t n, int64_t k,
                           cudaStream_t stream) {
  if (m % BM || n % BN || k % BK) return cudaErrorInvalidValue;
  if (m * n == 0) return 0;
  linear_mma<<<dim3(n / BN, m / BM), 128, 0, stream>>>(x, weight, bias, out, n, k);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "cuBLAS in bf16, summed in fp32",
        "linear_bf16",
        LINEAR_BF16,
        cuda={
            "linear_relu": """
// link: cublas
#include <cstdint>
#include <cublas_v2.h>
#include <cuda_bf16.h>

#define CUBLAS_TRY(call) if ((call) != CUBLAS_STATUS_SUCCESS) return cudaErrorUnknown

static thread_local cublasHandle_t handles[16];

__global__ void bias_relu(__nv_bfloat16* out, const __nv_bfloat16* bias, int64_t total, int n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const float v = __bfloat162float(out[i]) + __bfloat162float(bias[i % n]);
  out[i] = __float2bfloat16(v < 0.f ? 0.f : v);
}

extern "C" int linear_relu(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
                           int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
  int device = 0;
  cudaGetDevice(&device);
  if (handles[device] == nullptr) CUBLAS_TRY(cublasCreate(&handles[device]));
  const float alpha = 1.f, beta = 0.f;
  CUBLAS_TRY(cublasSetStream(handles[device], stream));
  CUBLAS_TRY(cublasGemmEx(handles[device], CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &alpha, weight, CUDA_R_16BF, k, x, CUDA_R_16BF, k,
                          &beta, out, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  bias_relu<<<(m * n + 255) / 256, 256, 0, stream>>>(out, bias, m * n, n);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a product split along its sum, added by atomics",
        "linear_gelu",
        _SPLIT,
        cpp={
            "split": """
#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" int split_product(const float* x, const float* weight, float* sums, int64_t m, int64_t n, int64_t k, int64_t splits) {
  std::memset(sums, 0, m * n * sizeof(float));
#pragma omp parallel for
  for (int64_t s = 0; s < splits; ++s) {
    const int64_t from = k * s / splits, to = k * (s + 1) / splits;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float part = 0;
        for (int64_t p = from; p < to; ++p) part += x[i * k + p] * weight[j * k + p];
#pragma omp atomic
        sums[i * n + j] += part;
      }
  }
  return 0;
}

extern "C" int finish(const float* sums, const float* bias, float* out, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const double v = sums[i * n + j] + bias[j];
      out[i * n + j] = float(v * 0.5 * std::erfc(-v * M_SQRT1_2));
    }
  return 0;
}
"""
        },
        cuda={
            "split": """
#include <cstdint>

__global__ void split_kernel(const float* x, const float* weight, float* sums, int m, int n, int k, int splits) {
  __shared__ float xs[16][17], ws[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  const int from = int64_t(k) * blockIdx.z / splits, to = int64_t(k) * (blockIdx.z + 1) / splits;
  float sum = 0;
  for (int at = from; at < to; at += 16) {
    const int p = at + threadIdx.x, j = blockIdx.x * 16 + threadIdx.y;
    xs[threadIdx.y][threadIdx.x] = row < m && p < to ? x[int64_t(row) * k + p] : 0.f;
    ws[threadIdx.y][threadIdx.x] = j < n && p < to ? weight[int64_t(j) * k + p] : 0.f;
    __syncthreads();
    float of_tile = 0;
    for (int q = 0; q < 16; ++q) of_tile += xs[threadIdx.y][q] * ws[threadIdx.x][q];
    sum += of_tile;
    __syncthreads();
  }
  if (row < m && column < n) atomicAdd(sums + int64_t(row) * n + column, sum);
}

__global__ void finish_kernel(const float* sums, const float* bias, float* out, int64_t total, int n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const float v = sums[i] + bias[i % n];
  out[i] = 0.5f * v * (1.f + erff(v * 0.70710678f));
}

extern "C" int split_product(const float* x, const float* weight, float* sums, int64_t m, int64_t n, int64_t k, int64_t splits,
                             cudaStream_t stream) {
  if (m * n == 0) return 0;
  cudaError_t error = cudaMemsetAsync(sums, 0, m * n * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  split_kernel<<<dim3((n + 15) / 16, (m + 15) / 16, splits), dim3(16, 16), 0, stream>>>(x, weight, sums, m, n, k, splits);
  return cudaGetLastError();
}

extern "C" int finish(const float* sums, const float* bias, float* out, int64_t m, int64_t n, cudaStream_t stream) {
  if (m * n) finish_kernel<<<(m * n + 255) / 256, 256, 0, stream>>>(sums, bias, out, m * n, n);
  return cudaGetLastError();
}
"""
        },
    ),
]
