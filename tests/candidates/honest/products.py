"""Matrix products with an epilogue: tiles in shared memory and registers, libraries, tensor cores, split sums."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.models import LINEAR_GELU

_GELU = """
__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }
"""

_WITH_EPILOGUE = """
import torch
from torch import nn
from kernels import matmul, bias_gelu_

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        m, k = x.shape
        n = self.linear.weight.shape[0]
        out = x.new_empty((m, n))
        matmul(x, self.linear.weight, out, m, n, k)
        bias_gelu_(out, self.linear.bias, m, n)
        return out
"""

_WITH_WORKSPACE = """
import torch
from torch import nn
from kernels import linear_gelu

WORKSPACE_BYTES = 4 * 1024 * 1024

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)
        self.register_buffer("workspace", torch.empty(0, dtype=torch.uint8), persistent=False)

    def forward(self, x):
        if self.workspace.numel() == 0:
            self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=x.device)
        (m, k), n = x.shape, self.linear.out_features
        out = x.new_empty((m, n))
        linear_gelu(x, self.linear.weight, self.linear.bias, out, self.workspace, m, n, k, self.workspace.numel())
        return out
"""

_EPILOGUE_CUDA = f"""
#include <cstdint>
{_GELU}
__global__ void bias_gelu_kernel(float* v, const float* bias, int64_t total, int n) {{
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < total) v[i] = gelu(v[i] + bias[i % n]);
}}

extern "C" int bias_gelu_(float* v, const float* bias, int64_t m, int64_t n, cudaStream_t stream) {{
  if (m * n) bias_gelu_kernel<<<(m * n + 255) / 256, 256, 0, stream>>>(v, bias, m * n, n);
  return cudaGetLastError();
}}
"""

PRODUCTS = [
    Candidate(
        "tiles in shared memory, or blocked loops",
        "linear_gelu",
        LINEAR_GELU,
        cpp={
            "linear_gelu": """
#include <algorithm>
#include <cmath>
#include <cstdint>

constexpr int64_t BM = 8, BN = 16, BK = 32;

extern "C" int linear_gelu(const float* x, const float* weight, const float* bias, float* out, int64_t m, int64_t n, int64_t k) {
#pragma omp parallel for collapse(2)
  for (int64_t i0 = 0; i0 < m; i0 += BM)
    for (int64_t j0 = 0; j0 < n; j0 += BN) {
      double sums[BM][BN] = {};
      const int64_t i1 = std::min(m, i0 + BM), j1 = std::min(n, j0 + BN);
      for (int64_t p0 = 0; p0 < k; p0 += BK)
        for (int64_t i = i0; i < i1; ++i)
          for (int64_t j = j0; j < j1; ++j)
            for (int64_t p = p0; p < std::min(k, p0 + BK); ++p)
              sums[i - i0][j - j0] += double(x[i * k + p]) * weight[j * k + p];
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) {
          const float v = float(sums[i - i0][j - j0] + bias[j]);
          out[i * n + j] = 0.5f * v * (1.0f + std::erf(v * float(M_SQRT1_2)));
        }
    }
  return 0;
}
"""
        },
        cuda={
            "linear_gelu": f"""
#include <cstdint>
{_GELU}
#define TILE 32

__global__ void linear_gelu_kernel(const float* x, const float* weight, const float* bias, float* out, int m, int n, int k) {{
  __shared__ float xs[TILE][TILE];
  __shared__ float ws[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int at = 0; at < k; at += TILE) {{
    const int p = at + threadIdx.x, j = blockIdx.x * TILE + threadIdx.y;
    xs[threadIdx.y][threadIdx.x] = row < m && p < k ? x[(int64_t)row * k + p] : 0.0f;
    ws[threadIdx.y][threadIdx.x] = j < n && p < k ? weight[(int64_t)j * k + p] : 0.0f;
    __syncthreads();
    float of_tile = 0.0f;
#pragma unroll
    for (int q = 0; q < TILE; ++q) of_tile += xs[threadIdx.y][q] * ws[threadIdx.x][q];
    sum += of_tile;
    __syncthreads();
  }}
  if (row < m && column < n) out[(int64_t)row * n + column] = gelu(sum + bias[column]);
}}

extern "C" int linear_gelu(const float* x, const float* weight, const float* bias, float* out, int64_t m, int64_t n,
                           int64_t k, cudaStream_t stream) {{
  if (m * n == 0) return 0;
  dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), block(TILE, TILE);
  linear_gelu_kernel<<<grid, block, 0, stream>>>(x, weight, bias, out, m, n, k);
  return cudaGetLastError();
}}
"""
        },
    ),
    Candidate(
        "tiles in registers, sizes as template parameters",
        "linear_gelu",
        LINEAR_GELU,
        cpp={
            "linear_gelu": """
#include <cmath>
#include <cstdint>
#include <memory>

typedef float lanes __attribute__((vector_size(32), aligned(4)));

// MR rows of x against eight rows of the weight, which stand side by side in the panel.
template <int MR>
static void micro(const float* x, int64_t k, const float* panel, const float* bias, float* out, int64_t n) {
  lanes sums[MR] = {};
  for (int64_t from = 0; from < k; from += 16) {  // sixteen are summed apart: shorter sums lose less
    lanes parts[MR] = {};
    for (int64_t p = from; p < k && p < from + 16; ++p) {
      const lanes w = *reinterpret_cast<const lanes*>(panel + 8 * p);
      for (int i = 0; i < MR; ++i) parts[i] += x[i * k + p] * w;
    }
    for (int i = 0; i < MR; ++i) sums[i] += parts[i];
  }
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < 8; ++j) {
      const float v = sums[i][j] + bias[j];
      out[i * n + j] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
    }
}

extern "C" int linear_gelu(const float* x, const float* weight, const float* bias, float* out, int64_t m, int64_t n, int64_t k) {
  if (n % 8 != 0) return 1;
  const std::unique_ptr<float[]> panel(new float[8 * k]);
  for (int64_t j = 0; j < n; j += 8) {
    for (int64_t p = 0; p < k; ++p)
      for (int q = 0; q < 8; ++q) panel[8 * p + q] = weight[(j + q) * k + p];
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) micro<4>(x + i * k, k, panel.get(), bias + j, out + i * n + j, n);
    for (; i < m; ++i) micro<1>(x + i * k, k, panel.get(), bias + j, out + i * n + j, n);
  }
  return 0;
}
"""
        },
        cuda={
            "linear_gelu": f"""
#include <cstdint>
{_GELU}
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM* BN / (TM * TN))
sgemm(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias, float* __restrict__ c, int m,
      int n, int k) {{
  constexpr int THREADS = BM * BN / (TM * TN);
  __shared__ float as[BK][BM + 4], bs[BK][BN + 4];
  const int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  float sums[TM][TN] = {{}};
  for (int at = 0; at < k; at += BK) {{
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {{
      const int r = i / BK, p = i % BK;
      as[p][r] = row0 + r < m && at + p < k ? a[int64_t(row0 + r) * k + at + p] : 0.f;
    }}
    for (int i = threadIdx.x; i < BN * BK; i += THREADS) {{
      const int r = i / BK, p = i % BK;
      bs[p][r] = col0 + r < n && at + p < k ? b[int64_t(col0 + r) * k + at + p] : 0.f;
    }}
    __syncthreads();
    float parts[TM][TN] = {{}};  // of this tile, summed apart
#pragma unroll
    for (int p = 0; p < BK; ++p) {{
      float av[TM], bv[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) av[i] = as[p][ty * TM + i];
#pragma unroll
      for (int j = 0; j < TN; ++j) bv[j] = bs[p][tx * TN + j];
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) parts[i][j] = fmaf(av[i], bv[j], parts[i][j]);
    }}
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) sums[i][j] += parts[i][j];
    __syncthreads();
  }}
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {{
      const int r = row0 + ty * TM + i, q = col0 + tx * TN + j;
      if (r < m && q < n) c[int64_t(r) * n + q] = gelu(sums[i][j] + bias[q]);
    }}
}}

extern "C" int linear_gelu(const float* x, const float* weight, const float* bias, float* out, int64_t m, int64_t n,
                           int64_t k, cudaStream_t stream) {{
  if (m * n == 0) return 0;
  sgemm<64, 64, 16, 4, 4><<<dim3((n + 63) / 64, (m + 63) / 64), 256, 0, stream>>>(x, weight, bias, out, m, n, k);
  return cudaGetLastError();
}}
"""
        },
    ),
    Candidate(
        "cuBLAS, then an epilogue in place",
        "linear_gelu",
        _WITH_EPILOGUE,
        cpp={
            "matmul": """
#include <cstdint>

extern "C" int matmul(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
      out[i * n + j] = sum;
    }
  return 0;
}
""",
            "epilogue": """
#include <cmath>
#include <cstdint>

extern "C" int bias_gelu_(float* v, const float* bias, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m * n; ++i) {
    const float t = v[i] + bias[i % n];
    v[i] = 0.5f * t * (1.0f + std::erf(t * 0.70710678f));
  }
  return 0;
}
""",
        },
        cuda={
            "matmul": """
// link: cublas
#include <cstdint>
#include <cublas_v2.h>

static cublasHandle_t handle_of_device() {
  static thread_local cublasHandle_t handles[64] = {};
  int device = 0;
  cudaGetDevice(&device);
  if (!handles[device]) cublasCreate(&handles[device]);
  return handles[device];
}

extern "C" int matmul(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
  const float one = 1.0f, zero = 0.0f;
  cublasHandle_t handle = handle_of_device();
  if (cublasSetStream(handle, stream) != CUBLAS_STATUS_SUCCESS) return cudaErrorUnknown;
  cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH);
  const cublasStatus_t status =
      cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, k, a, k, &zero, out, n);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}
""",
            "epilogue": _EPILOGUE_CUDA,
        },
    ),
    Candidate(
        "cuBLASLt with its bias epilogue, workspace kept",
        "linear_gelu",
        _WITH_WORKSPACE,
        cuda={
            "linear_gelu": f"""
// link: cublasLt
#include <cstdint>
#include <cublasLt.h>
{_GELU}
__global__ void gelu_kernel(float* v, int64_t total) {{
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < total) v[i] = gelu(v[i]);
}}

struct Plan {{  // descriptors of one call, destroyed with it
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  ~Plan() {{
    if (preference) cublasLtMatmulPreferenceDestroy(preference);
    if (c) cublasLtMatrixLayoutDestroy(c);
    if (b) cublasLtMatrixLayoutDestroy(b);
    if (a) cublasLtMatrixLayoutDestroy(a);
    if (op) cublasLtMatmulDescDestroy(op);
  }}
}};

static cublasLtHandle_t handle_of_device() {{
  static thread_local cublasLtHandle_t handles[64] = {{}};
  int device = 0;
  cudaGetDevice(&device);
  if (!handles[device]) cublasLtCreate(&handles[device]);
  return handles[device];
}}

extern "C" int linear_gelu(const float* x, const float* weight, const float* bias, float* out, uint8_t* workspace, int64_t m,
                           int64_t n, int64_t k, int64_t workspace_bytes, cudaStream_t stream) {{
  const cublasLtHandle_t handle = handle_of_device();
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const float one = 1.f, zero = 0.f;
  size_t bytes = workspace_bytes;
  Plan plan;
  cublasLtMatmulDescCreate(&plan.op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  cublasLtMatmulDescSetAttribute(plan.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  cublasLtMatrixLayoutCreate(&plan.a, CUDA_R_32F, k, n, k);
  cublasLtMatrixLayoutCreate(&plan.b, CUDA_R_32F, k, m, k);
  cublasLtMatrixLayoutCreate(&plan.c, CUDA_R_32F, n, m, n);
  cublasLtMatmulPreferenceCreate(&plan.preference);
  cublasLtMatmulPreferenceSetAttribute(plan.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, plan.op, plan.a, plan.b, plan.c, plan.c, plan.preference, 1, &best, &found);
  if (!found) return cudaErrorNotSupported;
  const cublasStatus_t status = cublasLtMatmul(handle, plan.op, &one, weight, plan.a, x, plan.b, &zero, out, plan.c, out,
                                               plan.c, &best.algo, workspace, bytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) return cudaErrorUnknown;
  gelu_kernel<<<(m * n + 255) / 256, 256, 0, stream>>>(out, m * n);
  return cudaGetLastError();
}}
"""
        },
    ),
]
