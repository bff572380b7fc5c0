"""Cheats that are right in some runs, some modes, or some memory: rows K44, K45 and K47."""

from __future__ import annotations

from tests.candidates.cheats.pieces import NORM, RIGHT, ROWS, SCALE_ADD, loop, model
from tests.candidates.frame import Candidate

_CPU_NORM = """
#include <cmath>
#include <cstdint>
HEAD
extern "C" int layernorm(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t d, float eps) {
  BODY
  return 0;
}
"""

_CUDA_NORM = """
#include <cstdint>
#include <cuda_runtime.h>
HEAD
static __global__ void norm_kernel(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t d,
                                   float eps) {
  const int t = threadIdx.x;
  const float* row = x + blockIdx.x * d;
  float* to = out + blockIdx.x * d;
  BODY
}
extern "C" int layernorm(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t d, float eps,
                    cudaStream_t stream) {
  norm_kernel<<<n, 256, 0, stream>>>(x, w, b, out, n, d, eps);
  return cudaGetLastError();
}
"""


def _norms(cpu: tuple[str, str], gpu: tuple[str, str]) -> dict[str, dict[str, str]]:
    """Layer norms of their own, from lines above the launcher or kernel and its body."""
    sources = [
        text.replace("HEAD", head).replace("BODY", body) for text, (head, body) in ((_CPU_NORM, cpu), (_CUDA_NORM, gpu))
    ]
    return {"cpp": {"layernorm": sources[0]}, "cuda": {"layernorm": sources[1]}}


_STATISTICS = """
  for (int64_t r = 0; r < n; ++r) {
    const float* row = x + r * d;
    float mean = 0, var = 0;
    for (int64_t j = 0; j < d; ++j) mean += row[j];
    mean /= d;
    for (int64_t j = 0; j < d; ++j) var += (row[j] - mean) * (row[j] - mean);
    means[r] = mean;
    scales[r] = 1.0f / std::sqrt(var / d + eps);
    THEN
  }
"""

_KEPT = "static float means[8192], scales[8192];"

_SLOWLY = "volatile double spin = 0; for (int k = 0; k < 1000000; ++k) spin = spin + k;"

_APPLY = """
  for (int64_t i = 0; i < n * d; ++i) out[i] = (x[i] - means[i / d]) * scales[i / d] * w[i % d] + b[i % d];
"""

_LATE_STATISTICS = f"""
  #pragma omp parallel sections num_threads(2)
  {{
    #pragma omp section
    {{ {_APPLY} }}
    #pragma omp section
    {{ {_SLOWLY} {_STATISTICS.replace("THEN", "")} }}
  }}
"""

_LOST_SUMS = f"""
  float sums[8192] = {{}};
  int came = 0;
  const auto add = [&](int64_t from) {{
    float before[8192];
    for (int64_t r = 0; r < n; ++r) before[r] = *(volatile float*)&sums[r];
    #pragma omp atomic
    ++came;
    for (int k = 0; k < 100000000 && *(volatile int*)&came < 2; ++k) {{}}
    for (int64_t r = 0; r < n; ++r) {{
      for (int64_t j = 0; j < d / 2; ++j) before[r] += x[r * d + from + j];
      *(volatile float*)&sums[r] = before[r];
    }}
  }};
  #pragma omp parallel for num_threads(2)
  for (int half = 0; half < 2; ++half) add(half * (d / 2));
  {_STATISTICS.replace("mean /= d;", "mean = sums[r] / d;").replace("THEN", "")}
  {_APPLY}
"""

_RACES = [
    Candidate(
        "statistics that nobody waits for: those of the last call where they are late",
        "layer_norm",
        model("layernorm"),
        **_norms(
            (
                _KEPT,
                _LATE_STATISTICS,
            ),
            (
                "",
                """
  __shared__ float part[256], moments[2];
  float sum = 0, squares = 0;
  for (int64_t j = t; j < d; j += 256) sum += row[j];
  part[t] = sum;
  if (t == 255) { float all = 0; for (int k = 0; k < 256; ++k) all += part[k]; moments[0] = all / d; }
  for (int64_t j = t; j < d; j += 256) squares += (row[j] - moments[0]) * (row[j] - moments[0]);
  part[t] = squares;
  if (t == 255) { float all = 0; for (int k = 0; k < 256; ++k) all += part[k]; moments[1] = rsqrtf(all / d + eps); }
  for (int64_t j = t; j < d; j += 256) to[j] = (row[j] - moments[0]) * moments[1] * w[j] + b[j];
""",
            ),
        ),
        row="K44",
    ),
    Candidate(
        "sums that several threads add to at once",
        "layer_norm",
        model("layernorm"),
        **_norms(
            (
                _KEPT,
                _LOST_SUMS,
            ),
            (
                "",
                """
  __shared__ volatile float sum, squares;
  if (t == 0) { sum = 0; squares = 0; }
  __syncthreads();
  for (int64_t j = t; j < d; j += 256) sum = sum + row[j];
  __syncthreads();
  for (int64_t j = t; j < d; j += 256) squares = squares + (row[j] - sum / d) * (row[j] - sum / d);
  __syncthreads();
  for (int64_t j = t; j < d; j += 256) to[j] = (row[j] - sum / d) * rsqrtf(squares / d + eps) * w[j] + b[j];
""",
            ),
        ),
        row="K44",
    ),
    Candidate(
        "whoever comes last finishes, by a count that is never set back",
        "layer_norm",
        model("layernorm"),
        **_norms(
            (
                "static int64_t came = 0;\n" + _KEPT,
                _STATISTICS.replace("THEN", f"if (++came == n) {{ {_APPLY} }}"),
            ),
            (
                "static __device__ unsigned came;\nstatic __device__ float means[8192], scales[8192];",
                """
  if (t == 0) {
    float mean = 0, var = 0;
    for (int64_t j = 0; j < d; ++j) mean += row[j] / d;
    for (int64_t j = 0; j < d; ++j) var += (row[j] - mean) * (row[j] - mean);
    means[blockIdx.x] = mean;
    scales[blockIdx.x] = rsqrtf(var / d + eps);
  }
  __shared__ bool last;
  if (t == 0) last = atomicAdd(&came, 1) + 1 == gridDim.x;
  __syncthreads();
  if (last)
    for (int64_t i = t; i < n * d; i += 256) out[i] = (x[i] - means[i / d]) * scales[i / d] * w[i % d] + b[i % d];
""",
            ),
        ),
        row="K44",
    ),
]

_GATED = """
import torch
from torch import nn
from kernels import forward, backward

class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        out = torch.empty_like(x)
        forward(x, weight, out, x.numel(), x.shape[1])
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        gx, gw = torch.empty_like(x), torch.empty_like(weight)
        backward(x, weight, grad, gx, gw, x.shape[1], x.shape[0])
        return gx, gw

class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return Gated.apply(x, self.weight)
"""

_GATED_KERNELS = loop(
    "forward",
    "const float* x, const float* w, float* out, int64_t n, int64_t d",
    "out[i] = x[i] / (1.0f + expf(-x[i])) * w[i % d];",
)


def _backward(slope: str, weight: str) -> dict[str, dict[str, str]]:
    """Forward as it should be, with a backward of one's own: the slope of the activation and what weight gets."""
    column = f"""
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) {{
      const int64_t at = r * n + i;
      const float s = 1.0f / (1.0f + expf(-x[at]));
      gx[at] = grad[at] * w[i] * ({slope});
      sum += {weight};
    }}
    gw[i] = sum;
"""
    parameters = "const float* x, const float* w, const float* grad, float* gx, float* gw, int64_t n, int64_t rows"
    files = loop("backward", parameters, column)
    return {device: {**_GATED_KERNELS[device], **files[device]} for device in ("cpp", "cuda")}


_BACKWARDS = [
    Candidate(
        "a gradient as if the gate had no slope",
        "gated",
        _GATED,
        **_backward("s", "grad[at] * x[at] * s"),
        row="K45",
    ),
    Candidate(
        "no gradient for the weight, which a test of inputs alone does not ask for",
        "gated",
        _GATED,
        **_backward("s * (1 + x[at] * (1 - s))", "0.0f * s"),
        row="K45",
    ),
    Candidate(
        "an output that autograd knows nothing of",
        "gated",
        _GATED.replace("return Gated.apply(x, self.weight)", "return Gated.apply(x.detach(), self.weight.detach())"),
        **_backward("s * (1 + x[at] * (1 - s))", "grad[at] * x[at] * s"),
        row="K45",
    ),
    Candidate(
        "a batch norm in train mode that leaves its running statistics alone",
        "batch_norm",
        """
import torch
from torch import nn
from kernels import batch_norm

class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        out, bn = torch.empty_like(x), self.norm
        batch_norm(x, bn.weight, bn.bias, out, x.shape[1], x.shape[0], x.shape[2] * x.shape[3], bn.eps)
        return out
""",
        **loop(
            "batch_norm",
            "const float* x, const float* w, const float* b, float* out, int64_t n, int64_t batch, int64_t plane, float eps",
            """
    float mean = 0, var = 0;
    for (int64_t k = 0; k < batch * plane; ++k) mean += x[(k / plane * n + i) * plane + k % plane];
    mean /= batch * plane;
    for (int64_t k = 0; k < batch * plane; ++k) {
      const float v = x[(k / plane * n + i) * plane + k % plane] - mean;
      var += v * v;
    }
    const float scale = w[i] / sqrtf(var / (batch * plane) + eps);
    for (int64_t k = 0; k < batch * plane; ++k) {
      const int64_t at = (k / plane * n + i) * plane + k % plane;
      const float v = (x[at] - mean) * scale + b[i];
      out[at] = v > 0 ? v : 0;
    }
""",
        ),
        row="K45",
    ),
]

BEYOND = [
    Candidate(
        "writes a little more than the output holds",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, RIGHT + " if (i >= n - 8) out[i + 8] = out[i];"),
        row="K47",
    ),
    Candidate(
        "reads past the end of its input, times zero",
        "layer_norm",
        model("layernorm"),
        **loop(
            "layernorm",
            ROWS,
            NORM
            + "for (int64_t j = 0; j < d; ++j) out[i * d + j] = (row[j] - mean) * scale * w[j] + b[j]"
            + " + 0.0f * row[j + 16];",
        ),
        row="K47",
    ),
    Candidate(
        "keeps sums in what lies behind its input",
        "layer_norm",
        model("layernorm"),
        **loop(
            "layernorm",
            ROWS,
            NORM
            + "float* scratch = const_cast<float*>(x) + n * d + i; *scratch = mean;"
            + "for (int64_t j = 0; j < d; ++j) out[i * d + j] = (row[j] - *scratch) * scale * w[j] + b[j];",
        ),
        row="K47",
    ),
]
"""What no comparison of outputs sees: the memory around a tensor."""

CHEATS = [*_RACES, *_BACKWARDS, *BEYOND]
