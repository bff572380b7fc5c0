"""Rows taken from tables, numbers of half precision, autograd functions of one's own."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_EMBEDDING = """
import torch
from torch import nn
from kernels import embed

class ModelNew(nn.Module):
    def __init__(self, words, width, length):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, tokens):
        batch, length = tokens.shape
        words, width = self.tokens.weight.shape
        out = self.positions.new_empty((batch, length, width))
        embed(tokens, self.tokens.weight, self.positions, out, batch, length, width, words)
        return out
"""

_RMS = """
import torch
from torch import nn
from kernels import rms_norm

EPS = 1e-6

class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, dtype=torch.float16))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        out = torch.empty_like(flat)
        rms_norm(flat, self.weight, out, flat.shape[0], flat.shape[1], EPS)
        return out.view_as(x)
"""

LOOKUPS = [
    Candidate(
        "rows of a table by vectors",
        "embedding",
        _EMBEDDING,
        cpp={
            "embed": """
#include <cstdint>

extern "C" int embed(const int64_t* tokens, const float* table, const float* positions, float* out, int64_t batch, int64_t length,
                     int64_t width, int64_t words) {
#pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t l = 0; l < length; ++l) {
      const int64_t token = tokens[b * length + l];
      float* to = out + (b * length + l) * width;
      const bool known = token >= 0 && token < words;
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] = (known ? table[token * width + d] : 0.0f) + positions[l * width + d];
    }
  return 0;
}
"""
        },
        cuda={
            "embed": """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void embed_kernel(const int64_t* __restrict__ tokens, const float4* __restrict__ table,
                             const float4* __restrict__ positions, float4* __restrict__ out, int length, int quads,
                             int64_t words) {
  const int64_t row = blockIdx.x;
  const int64_t token = __ldg(tokens + row);
  const int64_t position = row % length;
  if (token < 0 || token >= words) return;
  for (int d = threadIdx.x; d < quads; d += blockDim.x) {
    const float4 a = __ldg(table + token * quads + d), b = __ldg(positions + position * quads + d);
    out[row * quads + d] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }
}

extern "C" int embed(const int64_t* tokens, const float* table, const float* positions, float* out, int64_t batch, int64_t length,
                     int64_t width, int64_t words, cudaStream_t stream) {
  if (width % 4 != 0) return cudaErrorInvalidValue;
  if (batch * length == 0) return 0;
  embed_kernel<<<batch * length, 192, 0, stream>>>(tokens, (const float4*)table, (const float4*)positions, (float4*)out, length,
                                                   width / 4, words);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "equal tokens found by a hash map, or rows by warps",
        "embedding",
        _EMBEDDING,
        cpp={
            "embed": """
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

// Places of equal tokens are visited together, so that a row of the table is read once.
extern "C" int embed(const int64_t* tokens, const float* table, const float* positions, float* out, int64_t batch, int64_t length,
                     int64_t width, int64_t words) {
  std::unordered_map<int64_t, std::vector<int64_t>> places;
  places.reserve(std::min<int64_t>(words, batch * length));
  for (int64_t i = 0; i < batch * length; ++i) {
    if (tokens[i] < 0 || tokens[i] >= words) return 2;
    places[tokens[i]].push_back(i);
  }
  for (const auto& [token, at] : places)
    for (const int64_t i : at)
      std::transform(table + token * width, table + (token + 1) * width, positions + i % length * width, out + i * width,
                     [](float a, float b) { return a + b; });
  return 0;
}
"""
        },
        cuda={
            "embed": """
#include <cstdint>
#include <cuda_runtime.h>

constexpr int WARPS = 8;

__global__ void __launch_bounds__(32 * WARPS)
embed_warps(const int64_t* tokens, const float* table, const float* positions, float* out, int64_t total, int length, int width) {
  __shared__ int64_t ids[WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t(blockIdx.x) * WARPS;
  if (threadIdx.x < WARPS && first + threadIdx.x < total) ids[threadIdx.x] = tokens[first + threadIdx.x];
  __syncthreads();
  const int64_t i = first + warp;
  if (i >= total) return;
  const float* from = table + ids[warp] * width;
  const float* add = positions + i % length * width;
#pragma unroll 4
  for (int d = lane; d < width; d += 32) __stcs(out + i * width + d, from[d] + add[d]);
}

extern "C" int embed(const int64_t* tokens, const float* table, const float* positions, float* out, int64_t batch, int64_t length,
                     int64_t width, int64_t words, cudaStream_t stream) {
  (void)words;
  const int64_t total = batch * length;
  if (total == 0) return 0;
  embed_warps<<<(total + WARPS - 1) / WARPS, 32 * WARPS, 0, stream>>>(tokens, table, positions, out, total, length, width);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "float16 in vectors of eight, summed in fp32",
        "rms_half",
        _RMS,
        cpp={
            "rms_norm": """
#include <cmath>
#include <cstdint>
#include <cstring>

struct float16 { uint16_t bits; };

static inline float wide(float16 h) {
  _Float16 v;
  std::memcpy(&v, &h, 2);
  return float(v);
}

static inline float16 narrow(float f) {
  const _Float16 v = static_cast<_Float16>(f);
  float16 h;
  std::memcpy(&h, &v, 2);
  return h;
}

extern "C" int rms_norm(const float16* x, const float16* weight, float16* out, int64_t rows, int64_t size, float eps) {
  for (int64_t r = 0; r < rows; ++r) {
    float squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += wide(x[r * size + i]) * wide(x[r * size + i]);
    const float scale = 1 / std::sqrt(squares / size + eps);
    for (int64_t i = 0; i < size; ++i) out[r * size + i] = narrow(wide(x[r * size + i]) * scale * wide(weight[i]));
  }
  return 0;
}
"""
        },
        cuda={
            "rms_norm": """
#include <cstdint>
#include <cuda_fp16.h>

union Eight {
  uint4 all;
  __half2 pairs[4];
};

// A warp owns a row and reads it twice; the second time it comes from cache.
__global__ void rms_norm_kernel(const uint4* x, const uint4* weight, uint4* out, int64_t rows, int vectors, float eps) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float squares = 0.f;
  for (int i = threadIdx.x; i < vectors; i += 32) {
    Eight e;
    e.all = x[row * vectors + i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 f = __half22float2(e.pairs[j]);
      squares = fmaf(f.x, f.x, fmaf(f.y, f.y, squares));
    }
  }
  for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
  const float scale = rsqrtf(squares / (8.f * vectors) + eps);
  for (int i = threadIdx.x; i < vectors; i += 32) {
    Eight e, w;
    e.all = x[row * vectors + i];
    w.all = weight[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 f = __half22float2(e.pairs[j]), g = __half22float2(w.pairs[j]);
      e.pairs[j] = __floats2half2_rn(f.x * scale * g.x, f.y * scale * g.y);
    }
    out[row * vectors + i] = e.all;
  }
}

extern "C" int rms_norm(const __half* x, const __half* weight, __half* out, int64_t rows, int64_t size, float eps,
                        cudaStream_t stream) {
  if (size % 8 != 0) return cudaErrorInvalidValue;
  if (rows == 0) return 0;
  rms_norm_kernel<<<(rows + 3) / 4, dim3(32, 4), 0, stream>>>(
      reinterpret_cast<const uint4*>(x), reinterpret_cast<const uint4*>(weight), reinterpret_cast<uint4*>(out), rows,
      size / 8, eps);
  return cudaGetLastError();
}
"""
        },
    ),
]
