"""A developer's own file with several classes; the one that is made fast keeps its name."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.tasks import HONEST_TASKS

_IMPORT = "import torch.nn.functional as F\n"
_FORWARD = "        return self.act(self.norm(x)) + residual\n"
_NORM = "        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight\n"

_ORIGINAL = HONEST_TASKS["block"].source.replace("ROWS", "32")

_BLOCK = _ORIGINAL.replace(_IMPORT, f"{_IMPORT}\nfrom block_kernels import norm_act_add\n").replace(
    _FORWARD,
    """\
        out = torch.empty_like(x)
        size = x.shape[-1]
        norm_act_add(x, self.norm.weight, residual, out, x.numel() // size, size, self.norm.eps)
        return out
""",
)
"""The block's forward calls one kernel; norm and activation stay as holders of parameters."""

_TWO_CLASSES = (
    _ORIGINAL.replace(_IMPORT, f"{_IMPORT}\nfrom block_kernels import act_add, rms_norm\n")
    .replace(
        _NORM,
        """\
        out = torch.empty_like(x)
        rms_norm(x, self.weight, out, *x.shape, self.eps)
        return out
""",
    )
    .replace(
        _FORWARD,
        """\
        normed = self.norm(x)
        out = torch.empty_like(normed)
        act_add(normed, residual, out, out.numel())
        return out
""",
    )
)
"""The norm has a kernel of its own, and so has what follows it."""

_ROW_SUM = """
static __device__ float row_sum(float v) {
  __shared__ float slots[8];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
  __syncthreads();
  v = slots[threadIdx.x % 8];
  for (int o = 4; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
"""

OWN_FILES = [
    Candidate(
        "a developer's file, its block in one kernel",
        "block",
        _BLOCK,
        cpp={
            "norm_act_add": """
#include <cmath>
#include <cstdint>

extern "C" int norm_act_add(const float* x, const float* weight, const float* residual, float* out, int64_t rows, int64_t size,
                            float eps) {
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t c = 0; c < size; ++c) squares += double(x[r * size + c]) * x[r * size + c];
    const float scale = float(1 / std::sqrt(squares / size + eps));
    for (int64_t c = 0; c < size; ++c) {
      const float v = x[r * size + c] * scale * weight[c], positive = v < 0 ? 0 : v;
      out[r * size + c] = positive * positive + residual[r * size + c];
    }
  }
  return 0;
}
"""
        },
        cuda={
            "norm_act_add": f"""
#include <cstdint>
{_ROW_SUM}
__global__ void __launch_bounds__(256) norm_act_add_kernel(const float* x, const float* weight, const float* residual, float* out,
                                                           int size, float eps) {{
  const int64_t at = int64_t(blockIdx.x) * size;
  float squares = 0.f;
  for (int c = threadIdx.x; c < size; c += 256) squares += x[at + c] * x[at + c];
  const float scale = rsqrtf(row_sum(squares) / size + eps);
  for (int c = threadIdx.x; c < size; c += 256) {{
    float v = x[at + c] * scale * weight[c];
    v = v < 0.f ? 0.f : v;
    out[at + c] = v * v + residual[at + c];
  }}
}}

extern "C" int norm_act_add(const float* x, const float* weight, const float* residual, float* out, int64_t rows, int64_t size,
                            float eps, cudaStream_t stream) {{
  if (rows) norm_act_add_kernel<<<rows, 256, 0, stream>>>(x, weight, residual, out, size, eps);
  return cudaGetLastError();
}}
"""
        },
        file="block.py",
    ),
    Candidate(
        "a developer's file, a kernel in each of two classes",
        "block",
        _TWO_CLASSES,
        cpp={
            "rms_norm": """
#include <cmath>
#include <cstdint>

extern "C" int rms_norm(const float* x, const float* weight, float* out, int64_t rows, int64_t size, float eps) {
  for (int64_t r = 0; r < rows; ++r, x += size, out += size) {
    double squares = 0;
    for (int64_t c = 0; c < size; ++c) squares += double(x[c]) * x[c];
    const float scale = float(1 / std::sqrt(squares / size + eps));
    for (int64_t c = 0; c < size; ++c) out[c] = x[c] * scale * weight[c];
  }
  return 0;
}
""",
            "act_add": """
#include <algorithm>
#include <cstdint>

extern "C" int act_add(const float* x, const float* residual, float* out, int64_t n) {
  std::transform(x, x + n, residual, out, [](float v, float r) { return (v < 0 ? 0 : v * v) + r; });
  return 0;
}
""",
        },
        cuda={
            "rms_norm": f"""
#include <cstdint>
{_ROW_SUM}
__global__ void __launch_bounds__(256) rms_norm_kernel(const float* x, const float* weight, float* out, int size, float eps) {{
  const int64_t at = int64_t(blockIdx.x) * size;
  float squares = 0.f;
  for (int c = threadIdx.x; c < size; c += 256) squares += x[at + c] * x[at + c];
  const float scale = rsqrtf(row_sum(squares) / size + eps);
  for (int c = threadIdx.x; c < size; c += 256) out[at + c] = x[at + c] * scale * weight[c];
}}

extern "C" int rms_norm(const float* x, const float* weight, float* out, int64_t rows, int64_t size, float eps,
                        cudaStream_t stream) {{
  if (rows) rms_norm_kernel<<<rows, 256, 0, stream>>>(x, weight, out, size, eps);
  return cudaGetLastError();
}}
""",
            "act_add": """
#include <cstdint>

__global__ void act_add_kernel(const float* x, const float* residual, float* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (x[i] < 0.f ? 0.f : x[i] * x[i]) + residual[i];
}

extern "C" int act_add(const float* x, const float* residual, float* out, int64_t n, cudaStream_t stream) {
  if (n) act_add_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, residual, out, n);
  return cudaGetLastError();
}
""",
        },
        file="block.py",
    ),
]
