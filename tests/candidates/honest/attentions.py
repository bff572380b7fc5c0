"""Causal attention in one kernel, in three with the scores between them, and by batched products of cuBLAS."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_ONE_KERNEL = """
import math
import torch
from torch import nn
from kernels import attend

class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        batch, length, width = qkv.shape
        size = width // 3 // self.heads
        q, k, v = qkv.chunk(3, dim=-1)
        out = qkv.new_empty((batch, length, width // 3))
        attend(
            q, k, v, out, batch, self.heads, length, size, 1.0 / math.sqrt(size),
            *q.stride(), *k.stride(), *v.stride(),
        )
        return out
"""

_WITH_SCORES = """
import torch
from torch import nn
from kernels import scores, normalise, mix

class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        batch, length, width = qkv.shape
        size = width // 3 // self.heads
        weights = torch.empty((batch, self.heads, length, length), device=qkv.device, dtype=qkv.dtype)
        out = torch.empty((batch, length, width // 3), device=qkv.device, dtype=qkv.dtype)
        scores(qkv, weights, batch, self.heads, length, size, size**-0.5)
        normalise(weights, batch * self.heads, length)
        mix(qkv, weights, out, batch, self.heads, length, size)
        return out
"""

_SIGNATURE = """
extern "C" int attend(const float* q, const float* k, const float* v, float* out, int64_t batch, int64_t heads, int64_t length,
                      int64_t size, float scale, int64_t q_stride0, int64_t q_stride1, int64_t q_stride2, int64_t k_stride0,
                      int64_t k_stride1, int64_t k_stride2, int64_t v_stride0, int64_t v_stride1, int64_t v_stride2"""

ATTENTIONS = [
    Candidate(
        "attention in one kernel, over views of one tensor",
        "attention",
        _ONE_KERNEL,
        cpp={
            "attend": f"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>
{_SIGNATURE}) {{
  if (q_stride2 != 1 || k_stride2 != 1 || v_stride2 != 1) return 1;
#pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h) {{
      std::vector<float> weights(length);
      std::vector<double> sums(size);
      for (int64_t i = 0; i < length; ++i) {{
        const float* query = q + b * q_stride0 + i * q_stride1 + h * size;
        float top = -INFINITY;
        for (int64_t j = 0; j <= i; ++j) {{
          const float* key = k + b * k_stride0 + j * k_stride1 + h * size;
          double dot = 0;
          for (int64_t d = 0; d < size; ++d) dot += double(query[d]) * key[d];
          top = std::max(top, weights[j] = float(dot * scale));
        }}
        double total = 0;
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t j = 0; j <= i; ++j) {{
          const double weight = std::exp(weights[j] - top);
          const float* value = v + b * v_stride0 + j * v_stride1 + h * size;
          total += weight;
          for (int64_t d = 0; d < size; ++d) sums[d] += weight * value[d];
        }}
        for (int64_t d = 0; d < size; ++d) out[((b * length + i) * heads + h) * size + d] = float(sums[d] / total);
      }}
    }}
  return 0;
}}
"""
        },
        cuda={
            "attend": f"""
#include <cstdint>
#include <cuda_runtime.h>

struct View {{
  const float* data;
  int64_t batch, row;
}};

// A warp owns a query; a lane owns two of the 64 numbers of a head, and the running softmax is the same in all lanes.
__global__ void attend_kernel(View q, View k, View v, float* out, int heads, int length, float scale) {{
  const int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (i >= length) return;
  const int h = blockIdx.y, b = blockIdx.z;
  const auto row = [&](const View& view, int at) {{
    return reinterpret_cast<const float2*>(view.data + b * view.batch + at * view.row + h * 64) + lane;
  }};
  float2 query = *row(q, i), sum = {{0.f, 0.f}};
  query.x *= scale, query.y *= scale;
  float top = -INFINITY, total = 0.f;
  for (int j = 0; j <= i; ++j) {{
    const float2 key = *row(k, j), value = *row(v, j);
    float dot = query.x * key.x + query.y * key.y;
    for (int o = 16; o; o >>= 1) dot += __shfl_xor_sync(~0u, dot, o);
    const float higher = fmaxf(top, dot), keep = expf(top - higher), weight = expf(dot - higher);
    total = total * keep + weight;
    sum.x = sum.x * keep + weight * value.x;
    sum.y = sum.y * keep + weight * value.y;
    top = higher;
  }}
  reinterpret_cast<float2*>(out + ((int64_t(b) * length + i) * heads + h) * 64)[lane] = {{sum.x / total, sum.y / total}};
}}
{_SIGNATURE},
                      cudaStream_t stream) {{
  if (size != 64 || q_stride2 != 1 || k_stride2 != 1 || v_stride2 != 1) return cudaErrorInvalidValue;
  if (batch * heads * length == 0) return 0;
  attend_kernel<<<dim3((length + 3) / 4, heads, batch), 128, 0, stream>>>(
      {{q, q_stride0, q_stride1}}, {{k, k_stride0, k_stride1}}, {{v, v_stride0, v_stride1}}, out, heads, length, scale);
  return cudaGetLastError();
}}
"""
        },
    ),
    Candidate(
        "attention in three kernels with scores between",
        "attention",
        _WITH_SCORES,
        cpp={
            "scores": """
#include <cstdint>

extern "C" int scores(const float* qkv, float* weights, int64_t batch, int64_t heads, int64_t length, int64_t size, float scale) {
  const int64_t row = 3 * heads * size;
  for (int64_t bh = 0; bh < batch * heads; ++bh) {
    const float* q = qkv + bh / heads * length * row + bh % heads * size;
    const float* k = q + heads * size;
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < size; ++d) dot += double(q[i * row + d]) * k[j * row + d];
        weights[(bh * length + i) * length + j] = float(dot * scale);
      }
  }
  return 0;
}
""",
            "normalise": """
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int normalise(float* weights, int64_t matrices, int64_t length) {
  for (int64_t i = 0; i < matrices * length; ++i) {
    float* row = weights + i * length;
    float* end = row + i % length + 1;
    const float top = *std::max_element(row, end);
    double sum = 0;
    std::for_each(row, end, [&](float& w) { sum += w = std::exp(w - top); });
    std::for_each(row, end, [&](float& w) { w /= sum; });
    std::fill(end, row + length, 0.0f);
  }
  return 0;
}
""",
            "mix": """
#include <cstdint>

extern "C" int mix(const float* qkv, const float* weights, float* out, int64_t batch, int64_t heads, int64_t length,
                   int64_t size) {
  const int64_t row = 3 * heads * size;
  for (int64_t bh = 0; bh < batch * heads; ++bh)
    for (int64_t i = 0; i < length; ++i)
      for (int64_t d = 0; d < size; ++d) {
        const float* v = qkv + bh / heads * length * row + (2 * heads + bh % heads) * size + d;
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) sum += double(weights[(bh * length + i) * length + j]) * v[j * row];
        out[((bh / heads * length + i) * heads + bh % heads) * size + d] = float(sum);
      }
  return 0;
}
""",
        },
        cuda={
            "scores": """
#include <cstdint>

__global__ void scores_kernel(const float* qkv, float* weights, int heads, int length, int size, float scale) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y, bh = blockIdx.z;
  if (j >= length) return;
  const int64_t row = int64_t(3) * heads * size;
  const float* q = qkv + (int64_t(bh / heads) * length + i) * row + bh % heads * size;
  const float* k = qkv + (int64_t(bh / heads) * length + j) * row + (heads + bh % heads) * size;
  float dot = -INFINITY;
  if (j <= i) {
    dot = 0.f;
    for (int d = 0; d < size; ++d) dot += q[d] * k[d];
    dot *= scale;
  }
  weights[(int64_t(bh) * length + i) * length + j] = dot;
}

extern "C" int scores(const float* qkv, float* weights, int64_t batch, int64_t heads, int64_t length, int64_t size, float scale,
                      cudaStream_t stream) {
  if (batch * heads * length == 0) return 0;
  const dim3 grid((length + 127) / 128, length, batch * heads);
  scores_kernel<<<grid, 128, 0, stream>>>(qkv, weights, heads, length, size, scale);
  return cudaGetLastError();
}
""",
            "normalise": """
#include <cstdint>

// A warp owns a row.
__global__ void normalise_kernel(float* weights, int64_t rows, int length) {
  const int64_t r = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (r >= rows) return;
  float* row = weights + r * length;
  float top = -INFINITY, sum = 0.f;
  for (int j = threadIdx.x % 32; j < length; j += 32) top = fmaxf(top, row[j]);
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  for (int j = threadIdx.x % 32; j < length; j += 32) sum += expf(row[j] - top);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  for (int j = threadIdx.x % 32; j < length; j += 32) row[j] = expf(row[j] - top) / sum;
}

extern "C" int normalise(float* weights, int64_t matrices, int64_t length, cudaStream_t stream) {
  const int64_t rows = matrices * length;
  if (rows) normalise_kernel<<<(rows + 7) / 8, 256, 0, stream>>>(weights, rows, length);
  return cudaGetLastError();
}
""",
            "mix": """
#include <cstdint>

__global__ void mix_kernel(const float* qkv, const float* weights, float* out, int heads, int length, int size) {
  const int i = blockIdx.x, bh = blockIdx.y, d = threadIdx.x;
  const int64_t row = int64_t(3) * heads * size;
  const float* v = qkv + int64_t(bh / heads) * length * row + (2 * heads + bh % heads) * size + d;
  const float* w = weights + (int64_t(bh) * length + i) * length;
  float sum = 0.f;
  for (int j = 0; j <= i; ++j) sum += w[j] * v[j * row];
  out[((int64_t(bh / heads) * length + i) * heads + bh % heads) * size + d] = sum;
}

extern "C" int mix(const float* qkv, const float* weights, float* out, int64_t batch, int64_t heads, int64_t length, int64_t size,
                   cudaStream_t stream) {
  if (size > 1024) return cudaErrorInvalidValue;
  if (batch * heads * length == 0) return 0;
  mix_kernel<<<dim3(length, batch * heads), size, 0, stream>>>(qkv, weights, out, heads, length, size);
  return cudaGetLastError();
}
""",
        },
    ),
    Candidate(
        "attention by batched products of cuBLAS",
        "attention",
        _WITH_SCORES.replace("import scores, normalise, mix", "import attend")
        .replace("        scores(qkv, weights, batch, self.heads, length, size, size**-0.5)\n", "")
        .replace("        normalise(weights, batch * self.heads, length)\n", "")
        .replace(
            "mix(qkv, weights, out, batch, self.heads, length, size)",
            "attend(qkv, weights, out, batch, self.heads, length, size, size**-0.5)",
        ),
        cuda={
            "attend": """
// link: cublas
#include <cstdint>
#include <cublas_v2.h>

static cublasHandle_t handle_on(cudaStream_t stream) {
  static thread_local cublasHandle_t handles[16] = {};
  int device = 0;
  cudaGetDevice(&device);
  if (!handles[device] && cublasCreate(&handles[device]) != CUBLAS_STATUS_SUCCESS) return nullptr;
  cublasSetStream(handles[device], stream);
  cublasSetMathMode(handles[device], CUBLAS_DEFAULT_MATH);
  return handles[device];
}

// Softmax of the causal part of every row, zeros behind it; a warp owns a row.
__global__ void causal_softmax(float* weights, int64_t rows, int length) {
  const int64_t r = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (r >= rows) return;
  const int lane = threadIdx.x % 32, last = r % length;
  float* row = weights + r * length;
  float top = -INFINITY, sum = 0.f;
  for (int j = lane; j <= last; j += 32) top = fmaxf(top, row[j]);
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  for (int j = lane; j <= last; j += 32) sum += expf(row[j] - top);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  for (int j = lane; j < length; j += 32) row[j] = j <= last ? expf(row[j] - top) / sum : 0.f;
}

extern "C" int attend(const float* qkv, float* weights, float* out, int64_t batch, int64_t heads, int64_t length, int64_t size,
                      float scale, cudaStream_t stream) {
  const cublasHandle_t handle = handle_on(stream);
  if (!handle) return cudaErrorUnknown;
  const int row = int(3 * heads * size);
  const float one = 1.f, zero = 0.f;
  for (int64_t b = 0; b < batch; ++b) {  // heads are the batch of a call
    const float* q = qkv + b * length * row;
    float* w = weights + b * heads * length * length;
    if (cublasSgemmStridedBatched(handle, CUBLAS_OP_T, CUBLAS_OP_N, length, length, size, &scale, q + heads * size, row, size, q,
                                  row, size, &zero, w, length, length * length, heads) != CUBLAS_STATUS_SUCCESS)
      return cudaErrorUnknown;
    causal_softmax<<<(heads * length + 7) / 8, 256, 0, stream>>>(w, heads * length, length);
    const float* v = q + 2 * heads * size;
    if (cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, length, length, &one, v, row, size, w, length,
                                  length * length, &zero, out + b * length * heads * size, heads * size, size,
                                  heads) != CUBLAS_STATUS_SUCCESS)
      return cudaErrorUnknown;
  }
  return cudaGetLastError();
}
"""
        },
    ),
]
