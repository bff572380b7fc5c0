"""Convolutions by hand, by cuDNN, by a matrix of patches, with weights in constant memory."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_CONV = """
import torch
from torch import nn
from kernels import conv_relu

class ModelNew(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1)

    def forward(self, x):
        n, c, h, w = x.shape
        k = self.conv.out_channels
        out = torch.empty(n, k, h, w, device=x.device, dtype=x.dtype)
        conv_relu(x, self.conv.weight, self.conv.bias, out, n, c, k, h, w)
        return out
"""

_CONV_PATCHES = """
import torch
from torch import nn
from kernels import patches, product_relu

class ModelNew(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1)
        self._workspaces = {}

    def _workspace(self, like, *shape):
        key = (shape, like.device, like.dtype)
        if key not in self._workspaces:
            self._workspaces[key] = torch.empty(shape, device=like.device, dtype=like.dtype)
        return self._workspaces[key]

    def forward(self, x):
        n, c, h, w = x.shape
        k = self.conv.weight.shape[0]
        columns = self._workspace(x, n, c * 9, h * w)
        out = x.new_empty((n, k, h, w))
        patches(x, columns, n, c, h, w)
        product_relu(self.conv.weight.view(k, -1), columns, self.conv.bias, out.view(n, k, -1), n, k, c * 9, h * w)
        return out
"""

_CONV_CUDNN = """
import torch
from torch import nn
from kernels import conv_relu

class ModelNew(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1)
        self._workspace = None

    def forward(self, x):
        n, c, h, w = x.shape
        k = self.conv.out_channels
        if self._workspace is None or self._workspace.device != x.device:
            self._workspace = torch.empty(64 << 20, dtype=torch.uint8, device=x.device)
        out = x.new_empty((n, k, h, w))
        conv_relu(x, self.conv.weight, self.conv.bias, out, self._workspace, n, c, k, h, w, self._workspace.numel())
        return out
"""

IMAGES = [
    Candidate(
        "a direct convolution",
        "conv_relu",
        _CONV,
        cpp={
            "conv_relu": """
#include <cstdint>

extern "C" int conv_relu(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t c, int64_t k,
                         int64_t h, int64_t w) {
#pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < n; ++b)
    for (int64_t f = 0; f < k; ++f)
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < w; ++j) {
          double sum = bias[f];
          for (int64_t ch = 0; ch < c; ++ch)
            for (int64_t di = 0; di < 3; ++di)
              for (int64_t dj = 0; dj < 3; ++dj) {
                const int64_t r = i + di - 1, s = j + dj - 1;
                if (r < 0 || r >= h || s < 0 || s >= w) continue;
                sum += double(x[((b * c + ch) * h + r) * w + s]) * weight[((f * c + ch) * 3 + di) * 3 + dj];
              }
          out[((b * k + f) * h + i) * w + j] = sum < 0 ? 0 : float(sum);
        }
  return 0;
}
"""
        },
        cuda={
            "conv_relu": """
#include <cstdint>
#include <cuda_runtime.h>

constexpr int SIDE = 16;

// A block makes a square of one output plane; the input's square with its border goes through shared memory.
__global__ void conv_relu_kernel(const float* x, const float* weight, const float* bias, float* out, int c, int k, int h, int w) {
  __shared__ float tile[SIDE + 2][SIDE + 2];
  const int f = blockIdx.z % k, b = blockIdx.z / k;
  const int top = blockIdx.y * SIDE, left = blockIdx.x * SIDE;
  const int i = top + threadIdx.y, j = left + threadIdx.x;
  float sum = bias[f];
  for (int ch = 0; ch < c; ++ch) {
    const float* plane = x + (int64_t(b) * c + ch) * h * w;
    for (int t = threadIdx.y * SIDE + threadIdx.x; t < (SIDE + 2) * (SIDE + 2); t += SIDE * SIDE) {
      const int r = top + t / (SIDE + 2) - 1, s = left + t % (SIDE + 2) - 1;
      tile[t / (SIDE + 2)][t % (SIDE + 2)] = r >= 0 && r < h && s >= 0 && s < w ? plane[int64_t(r) * w + s] : 0.f;
    }
    __syncthreads();
    const float* taps = weight + (int64_t(f) * c + ch) * 9;
#pragma unroll
    for (int d = 0; d < 9; ++d) sum += tile[threadIdx.y + d / 3][threadIdx.x + d % 3] * taps[d];
    __syncthreads();
  }
  if (i < h && j < w) out[((int64_t(b) * k + f) * h + i) * w + j] = sum < 0.f ? 0.f : sum;
}

extern "C" int conv_relu(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t c, int64_t k,
                         int64_t h, int64_t w, cudaStream_t stream) {
  if (n * k * h * w == 0) return 0;
  if (n * k > 65535) return cudaErrorInvalidValue;
  const dim3 grid((w + SIDE - 1) / SIDE, (h + SIDE - 1) / SIDE, n * k);
  conv_relu_kernel<<<grid, dim3(SIDE, SIDE), 0, stream>>>(x, weight, bias, out, c, k, h, w);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "weights copied to constant memory in each call, or to an array",
        "conv_relu",
        _CONV,
        cpp={
            "conv_relu": """
#include <array>
#include <cstdint>
#include <vector>

extern "C" int conv_relu(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t c, int64_t k,
                         int64_t h, int64_t w) {
  const int64_t pitch = w + 2;
  std::vector<float> padded(c * (h + 2) * pitch);
  std::vector<double> sums(h * w);
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t ch = 0; ch < c; ++ch)
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < w; ++j) padded[(ch * (h + 2) + i + 1) * pitch + j + 1] = x[((b * c + ch) * h + i) * w + j];
    for (int64_t f = 0; f < k; ++f) {
      float* plane = out + (b * k + f) * h * w;
      sums.assign(h * w, bias[f]);
      for (int64_t ch = 0; ch < c; ++ch) {
        std::array<float, 9> taps;
        for (int d = 0; d < 9; ++d) taps[d] = weight[(f * c + ch) * 9 + d];
        for (int64_t i = 0; i < h; ++i) {
          const float* in = padded.data() + (ch * (h + 2) + i) * pitch;
          for (int d = 0; d < 9; ++d)
            for (int64_t j = 0; j < w; ++j) sums[i * w + j] += double(in[d / 3 * pitch + j + d % 3]) * taps[d];
        }
      }
      for (int64_t p = 0; p < h * w; ++p) plane[p] = sums[p] < 0 ? 0 : float(sums[p]);
    }
  }
  return 0;
}
"""
        },
        cuda={
            "conv_relu": """
#include <cstdint>
#include <cuda_runtime.h>

__constant__ float taps[8192];

__global__ void conv_constant(const float* x, const float* bias, float* out, int64_t total, int c, int k, int h, int w) {
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int f = blockIdx.y;
  if (at >= total) return;
  const int j = at % w, i = at / w % h;
  const int64_t b = at / w / h;
  float sum = bias[f];
  for (int ch = 0; ch < c; ++ch) {
    const float* plane = x + (b * c + ch) * h * w;
#pragma unroll
    for (int d = 0; d < 9; ++d) {
      const int r = i + d / 3 - 1, s = j + d % 3 - 1;
      if (r >= 0 && r < h && s >= 0 && s < w) sum += plane[int64_t(r) * w + s] * taps[(f * c + ch) * 9 + d];
    }
  }
  out[((b * k + f) * h + i) * w + j] = sum < 0.f ? 0.f : sum;
}

extern "C" int conv_relu(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t c, int64_t k,
                         int64_t h, int64_t w, cudaStream_t stream) {
  if (k * c * 9 > 8192) return cudaErrorInvalidValue;
  const int64_t total = n * h * w;
  if (total * k == 0) return 0;
  const cudaError_t error =
      cudaMemcpyToSymbolAsync(taps, weight, k * c * 9 * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
  if (error != cudaSuccess) return error;
  conv_constant<<<dim3((total + 255) / 256, k), 256, 0, stream>>>(x, bias, out, total, c, k, h, w);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "a matrix of patches in kept workspaces",
        "conv_relu",
        _CONV_PATCHES,
        cpp={
            "conv": """
#include <cstdint>
#include <vector>

extern "C" int patches(const float* x, float* columns, int64_t n, int64_t c, int64_t h, int64_t w) {
  for (int64_t b = 0; b < n; ++b)
    for (int64_t q = 0; q < c * 9; ++q)
      for (int64_t i = 0; i < h; ++i)
        for (int64_t j = 0; j < w; ++j) {
          const int64_t r = i + q % 9 / 3 - 1, s = j + q % 3 - 1;
          const bool inside = r >= 0 && r < h && s >= 0 && s < w;
          columns[(b * c * 9 + q) * h * w + i * w + j] = inside ? x[((b * c + q / 9) * h + r) * w + s] : 0.0f;
        }
  return 0;
}

extern "C" int product_relu(const float* weight, const float* columns, const float* bias, float* out, int64_t n, int64_t k,
                            int64_t depth, int64_t pixels) {
#pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < n; ++b)
    for (int64_t f = 0; f < k; ++f) {
      std::vector<double> row(pixels, bias[f]);
      for (int64_t q = 0; q < depth; ++q)
#pragma omp simd
        for (int64_t p = 0; p < pixels; ++p) row[p] += double(weight[f * depth + q]) * columns[(b * depth + q) * pixels + p];
      for (int64_t p = 0; p < pixels; ++p) out[(b * k + f) * pixels + p] = row[p] < 0 ? 0 : float(row[p]);
    }
  return 0;
}
"""
        },
        cuda={
            "conv": """
#include <cstdint>

__global__ void patches_kernel(const float* x, float* columns, int64_t total, int c, int h, int w) {
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= total) return;
  const int j = at % w, i = at / w % h, q = at / w / h % (c * 9);
  const int64_t b = at / w / h / (c * 9);
  const int r = i + q % 9 / 3 - 1, s = j + q % 3 - 1;
  columns[at] = r >= 0 && r < h && s >= 0 && s < w ? x[((b * c + q / 9) * h + r) * w + s] : 0.0f;
}

// A thread makes one output; a block's 256 pixels share a row of the weight.
__global__ void product_kernel(const float* weight, const float* columns, const float* bias, float* out, int k, int depth,
                               int pixels) {
  extern __shared__ float row[];
  const int f = blockIdx.y;
  const int64_t b = blockIdx.z;
  for (int q = threadIdx.x; q < depth; q += blockDim.x) row[q] = weight[f * depth + q];
  __syncthreads();
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= pixels) return;
  float sum = bias[f];
  for (int q = 0; q < depth; ++q) sum += row[q] * columns[(b * depth + q) * pixels + p];
  out[(b * k + f) * pixels + p] = sum < 0.f ? 0.f : sum;
}

extern "C" int patches(const float* x, float* columns, int64_t n, int64_t c, int64_t h, int64_t w, cudaStream_t stream) {
  const int64_t total = n * c * 9 * h * w;
  if (total) patches_kernel<<<(total + 255) / 256, 256, 0, stream>>>(x, columns, total, c, h, w);
  return cudaGetLastError();
}

extern "C" int product_relu(const float* weight, const float* columns, const float* bias, float* out, int64_t n, int64_t k,
                            int64_t depth, int64_t pixels, cudaStream_t stream) {
  if (n * k * pixels == 0) return 0;
  product_kernel<<<dim3((pixels + 255) / 256, k, n), 256, depth * sizeof(float), stream>>>(
      weight, columns, bias, out, k, depth, pixels);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "cuDNN with bias and activation",
        "conv_relu",
        _CONV_CUDNN,
        cuda={
            "conv_relu": """
// link: cudnn
#include <cstdint>
#include <cudnn.h>

#define TRY(call)                                             \\
  do {                                                        \\
    if ((call) != CUDNN_STATUS_SUCCESS) return cudaErrorUnknown; \\
  } while (0)

struct Plan {  // what depends on the shape alone, made again when it changes
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t x, out, bias;
  cudnnFilterDescriptor_t weight;
  cudnnConvolutionDescriptor_t conv;
  cudnnActivationDescriptor_t relu;
  int64_t shape[5];
};

static int describe(Plan& p, int64_t n, int64_t c, int64_t k, int64_t h, int64_t w) {
  if (!p.handle) {
    TRY(cudnnCreate(&p.handle));
    TRY(cudnnCreateTensorDescriptor(&p.x));
    TRY(cudnnCreateTensorDescriptor(&p.out));
    TRY(cudnnCreateTensorDescriptor(&p.bias));
    TRY(cudnnCreateFilterDescriptor(&p.weight));
    TRY(cudnnCreateConvolutionDescriptor(&p.conv));
    TRY(cudnnCreateActivationDescriptor(&p.relu));
  }
  const int64_t shape[5] = {n, c, k, h, w};
  bool same = true;
  for (int i = 0; i < 5; ++i) same = same && p.shape[i] == shape[i];
  if (same) return 0;
  TRY(cudnnSetTensor4dDescriptor(p.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
  TRY(cudnnSetTensor4dDescriptor(p.out, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h, w));
  TRY(cudnnSetTensor4dDescriptor(p.bias, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, k, 1, 1));
  TRY(cudnnSetFilter4dDescriptor(p.weight, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, c, 3, 3));
  TRY(cudnnSetConvolution2dDescriptor(p.conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  TRY(cudnnSetConvolutionMathType(p.conv, CUDNN_FMA_MATH));
  TRY(cudnnSetActivationDescriptor(p.relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0));
  for (int i = 0; i < 5; ++i) p.shape[i] = shape[i];
  return 0;
}

extern "C" int conv_relu(const float* x, const float* weight, const float* bias, float* out, uint8_t* workspace, int64_t n,
                         int64_t c, int64_t k, int64_t h, int64_t w, int64_t workspace_bytes, cudaStream_t stream) {
  static thread_local Plan plans[16] = {};
  int device = 0;
  cudaGetDevice(&device);
  Plan& p = plans[device];
  if (const int error = describe(p, n, c, k, h, w)) return error;
  TRY(cudnnSetStream(p.handle, stream));
  const float one = 1.f, zero = 0.f;
  const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  size_t needed = 0;
  TRY(cudnnGetConvolutionForwardWorkspaceSize(p.handle, p.x, p.weight, p.conv, p.out, algorithm, &needed));
  if (needed > size_t(workspace_bytes)) return cudaErrorMemoryAllocation;
  TRY(cudnnConvolutionBiasActivationForward(p.handle, &one, p.x, x, p.weight, weight, p.conv, algorithm, workspace, needed,
                                            &zero, p.out, out, p.bias, bias, p.relu, p.out, out));
  return 0;
}
"""
        },
    ),
]
