"""Where torch may compute too: its operators beside kernels, its graphs, its allocator, answers with ``load_inline``, Triton."""

from __future__ import annotations

from tests.candidates.frame import Candidate

_BESIDE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from kernels import norm_tanh

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        h = self.first(x)
        out = torch.empty_like(h)
        norm_tanh(h, self.norm.weight, self.norm.bias, out, h.shape[0], h.shape[1], self.norm.eps)
        return torch.add(self.second(out) * 0.5, x)
"""

_BESIDE_RAW = """
import torch
import torch.nn as nn
from kernels import norm_tanh


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)
        self.register_buffer("share", torch.tensor(0.5), persistent=False)
        self._buffers_of = {}

    def _work(self, x):
        key = (tuple(x.shape), x.dtype, x.device)
        work = self._buffers_of.get(key)
        if work is None:
            work = self._buffers_of[key] = (torch.empty_like(x), torch.empty_like(x))
        return work

    @torch.no_grad()
    def forward(self, x):
        h, act = self._work(x)
        torch.addmm(self.first.bias, x, self.first.weight.t(), out=h)
        norm_tanh(h, self.norm.weight, self.norm.bias, act, *h.shape, self.norm.eps)
        second = torch.mm(act, self.second.weight.transpose(0, 1))
        return second.add_(self.second.bias).mul_(self.share).add_(x)
"""

_GRAPH = """
import torch
import torch.nn as nn
from kernels import norm_tanh


class ModelNew(nn.Module):
    \"\"\"Replays a CUDA graph whose inputs are copied in and whose result is copied out; weights are read where they are.\"\"\"

    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)
        self._graphs = {}

    def _compute(self, x):
        h = self.first(x)
        out = torch.empty_like(h)
        norm_tanh(h, self.norm.weight, self.norm.bias, out, h.shape[0], h.shape[1], self.norm.eps)
        return self.second(out) * 0.5 + x

    def _captured(self, x):
        # A new graph for another shape, and whenever a parameter lives elsewhere than when it was captured.
        key = (x.shape, x.dtype, tuple(p.data_ptr() for p in self.parameters()))
        if key not in self._graphs:
            static = torch.empty_like(x).copy_(x)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self._compute(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = self._compute(static)
            self._graphs = {key: (graph, static, result)}
        return self._graphs[key]

    @torch.no_grad()
    def forward(self, x):
        if not x.is_cuda or torch.cuda.is_current_stream_capturing():
            return self._compute(x)
        graph, static, result = self._captured(x)
        static.copy_(x)
        graph.replay()
        return result.clone()
"""

_NORM_TANH_CPP = """
#include <cmath>
#include <cstdint>

extern "C" int norm_tanh(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t size,
                         float eps) {
#pragma omp parallel for if (rows * size > 32768)
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * size;
    double mean = 0, squares = 0;
    for (int64_t c = 0; c < size; ++c) mean += in[c];
    mean /= size;
    for (int64_t c = 0; c < size; ++c) squares += (in[c] - mean) * (in[c] - mean);
    const double rstd = 1 / std::sqrt(squares / size + eps);
    for (int64_t c = 0; c < size; ++c) out[r * size + c] = std::tanh(float((in[c] - mean) * rstd) * weight[c] + bias[c]);
  }
  return 0;
}
"""

_NORM_TANH_CUDA = """
#include <cstdint>

__device__ float sum_of_warp(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}

__global__ void norm_tanh_kernel(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int size,
                                 float eps) {
  const int64_t row = int64_t(blockIdx.x) * 4 + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  const float* in = x + row * size;
  float sum = 0.f, squares = 0.f;
  for (int c = lane; c < size; c += 32) sum += in[c];
  const float mean = sum_of_warp(sum) / size;
  for (int c = lane; c < size; c += 32) squares += (in[c] - mean) * (in[c] - mean);
  const float rstd = rsqrtf(sum_of_warp(squares) / size + eps);
  for (int c = lane; c < size; c += 32) out[row * size + c] = tanhf((in[c] - mean) * rstd * weight[c] + bias[c]);
}

extern "C" int norm_tanh(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t size,
                         float eps, cudaStream_t stream) {
  if (rows) norm_tanh_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(x, weight, bias, out, rows, size, eps);
  return cudaGetLastError();
}
"""

_KERNELS = {"cpp": {"norm_tanh": _NORM_TANH_CPP}, "cuda": {"norm_tanh": _NORM_TANH_CUDA}}

_INLINE_CPP = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = """
#include <torch/extension.h>

torch::Tensor scale_add_relu(torch::Tensor x, torch::Tensor w, torch::Tensor y) {
  TORCH_CHECK(x.is_contiguous() && y.is_contiguous() && w.is_contiguous(), "contiguous tensors expected");
  auto out = torch::empty_like(x);
  const float *xp = x.data_ptr<float>(), *wp = w.data_ptr<float>(), *yp = y.data_ptr<float>();
  float* op = out.data_ptr<float>();
  const int64_t n = x.numel(), columns = x.size(-1);
  for (int64_t i = 0; i < n; ++i) {
    const float v = xp[i] * wp[i % columns] + yp[i];
    op[i] = v < 0 ? 0 : v;
  }
  return out;
}
"""

scale_add = load_inline(
    name="scale_add",
    cpp_sources=cpp_source,
    functions=["scale_add_relu"],
    extra_cflags=["-O3"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.scale_add = scale_add

    def forward(self, x, y):
        return self.scale_add.scale_add_relu(x, self.weight, y)
'''

_INLINE_CUDA = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

softmax_source = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void softmax_kernel(const float* x, float* out, int columns) {
  __shared__ float shared[256];
  const float* row = x + (int64_t)blockIdx.x * columns;
  float top = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) top = fmaxf(top, row[c]);
  shared[threadIdx.x] = top;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + s]);
    __syncthreads();
  }
  top = shared[0];
  __syncthreads();
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c] - top);
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) shared[threadIdx.x] += shared[threadIdx.x + s];
    __syncthreads();
  }
  sum = shared[0];
  for (int c = threadIdx.x; c < columns; c += blockDim.x) out[(int64_t)blockIdx.x * columns + c] = expf(row[c] - top) / sum;
}

torch::Tensor softmax_cuda(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int rows = x.size(0), columns = x.size(1);
  softmax_kernel<<<rows, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), columns);
  return out;
}
"""

softmax_cpp_source = "torch::Tensor softmax_cuda(torch::Tensor x);"

softmax = load_inline(
    name="softmax",
    cpp_sources=softmax_cpp_source,
    cuda_sources=softmax_source,
    functions=["softmax_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = softmax

    def forward(self, x):
        return self.softmax.softmax_cuda(x)
'''

_TRITON = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=4)
        return out
"""

_TRITON_TUNED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": size}, num_warps=warps) for size in (512, 1024) for warps in (4, 8)],
    key=["n"],
)
@triton.jit
def scale_add_kernel(x_ptr, w_ptr, y_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    w = tl.load(w_ptr + offsets % columns, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    value = x * w + y
    tl.store(out_ptr + offsets, tl.where(value < 0, 0.0, value), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        out = torch.empty_like(x)
        n = out.numel()
        scale_add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, self.weight, y, out, n, x.shape[-1])
        return out
"""

OPENLY = [
    Candidate("torch's linear layers around a kernel", "open", _BESIDE, **_KERNELS),
    Candidate("torch's products into buffers that are kept", "open", _BESIDE_RAW, **_KERNELS),
    Candidate("a CUDA graph of torch, with copies in and out", "open", _GRAPH, **_KERNELS),
    Candidate("an answer with load_inline, in C++", "scale_add", _INLINE_CPP, cpp={}),
    Candidate("an answer with load_inline, in CUDA", "softmax", _INLINE_CUDA, cuda={}),
    Candidate("Triton, a program a row", "softmax", _TRITON, cuda={}),
    Candidate("Triton, tuned by itself", "scale_add", _TRITON_TUNED, cuda={}),
]
