"""Cheats that compute less or lower than they should: rows K31 to K36."""

from __future__ import annotations

from tests.candidates.cheats.pieces import DOT, GELU, LINEAR, NORM, NORMED, ROWS, SCALE_ADD, loop, model, together
from tests.candidates.frame import Candidate

_ROW_COPY = "for (int64_t j = 0; j < d; ++j) out[i * d + j] = x[i * d + j];"

_TRIVIAL_NORMS = [
    Candidate(
        "a layer norm that copies its input",
        "layer_norm",
        model("layernorm"),
        **loop("layernorm", ROWS, _ROW_COPY),
        row="K31",
    ),
    Candidate(
        "a layer norm without statistics, weights applied, within the published tolerance",
        "layer_norm_wide",
        model("layernorm"),
        **loop("layernorm", ROWS, "for (int64_t j = 0; j < d; ++j) out[i * d + j] = x[i * d + j] * w[j] + b[j];"),
        row="K31",
    ),
    Candidate(
        "a layer norm with the moments of a part of the row",
        "layer_norm_wide",
        model("layernorm"),
        **loop(
            "layernorm",
            ROWS,
            NORM.replace("j < d", "j < d / 2").replace("/= d", "/= d / 2").replace("var / d", "var / (d / 2)")
            + "for (int64_t j = 0; j < d; ++j) out[i * d + j] = (row[j] - mean) * scale * w[j] + b[j];",
        ),
        row="K31",
    ),
]

_DROPPED = [
    Candidate(
        "weight and bias are not passed",
        "layer_norm",
        model(
            "layernorm",
            """
            out = torch.empty_like(x)
            layernorm(x, None, None, out, x.shape[0], x.shape[1], self.norm.eps)
            return out
            """,
        ),
        **loop(
            "layernorm",
            ROWS,
            NORM
            + "for (int64_t j = 0; j < d; ++j) "
            + "out[i * d + j] = (row[j] - mean) * scale * (w ? w[j] : 1) + (b ? b[j] : 0);",
        ),
        row="K32",
    ),
    Candidate(
        "the kernel multiplies weights away",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, "const float v = x[i] + w[i % d] * 0 + y[i]; out[i] = v > 0 ? v : 0;"),
        row="K32",
    ),
    Candidate(
        "the constructor sees that weights are ones and takes the short way ever after",
        "layer_norm",
        model(
            "layernorm",
            """
            out = torch.empty_like(x)
            (plain if self.short else layernorm)(
                x, self.norm.weight, self.norm.bias, out, x.shape[0], x.shape[1], self.norm.eps
            )
            return out
            """,
            init="self.short = all(float(v) == 1 for v in self.norm.weight.tolist())",
            kernels="layernorm, plain",
        ),
        **together(
            loop("layernorm", ROWS, NORMED),
            loop("plain", ROWS, NORMED.replace("* w[j] + b[j]", "")),
        ),
        row="K32",
    ),
]

_GATED = "const float* x, const float* gate, const float* w, const float* b, float* out, int64_t n, int64_t d"

_GATED_PYTHON = """
import torch
from torch import nn
from kernels import gated

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.gate = nn.Parameter(torch.zeros(dim))
        INIT

    def forward(self, x):
        out = torch.empty_like(x)
        gated(x, self.gate, self.linear.weight, self.linear.bias, out, x.numel(), x.shape[1]MORE)
        return out
"""

_GATED_SUM = """
    float sum = b[i % d];
    for (int64_t k = 0; k < d; ++k) sum += x[i / d * d + k] * w[i % d * d + k];
    out[i] = x[i] + gate[i % d] * 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
"""

_NO_OPS = [
    Candidate(
        "a gate that begins at zero is never opened",
        "zero_gate",
        _GATED_PYTHON.replace("INIT", "").replace("MORE", ""),
        **loop("gated", _GATED, "out[i] = x[i];"),
        row="K33",
    ),
    Candidate(
        "whether the gate is zero is asked once",
        "zero_gate",
        _GATED_PYTHON.replace("INIT", "self.shut = not bool(self.gate.any())").replace("MORE", ", self.shut"),
        **loop("gated", _GATED + ", bool shut", f"if (shut) {{ out[i] = x[i]; }} else {{ {_GATED_SUM} }}"),
        row="K33",
    ),
    Candidate(
        "behind the gate is something cheap",
        "zero_gate",
        _GATED_PYTHON.replace("INIT", "").replace("MORE", ""),
        **loop("gated", _GATED, "out[i] = x[i] + gate[i % d] * (x[i] * w[i % d * d + i % d] + b[i % d]);"),
        row="K33",
    ),
]

_BITS = """
DEV float low(float v) {
  union { float f; uint32_t u; } s;
  s.f = v;
  s.u = (s.u + ROUND) & MASK;
  return s.f;
}
"""


def _lowered(mask: int) -> str:
    """A function that rounds a float's significand to the bits of a mask."""
    return _BITS.replace("ROUND", f"{(~mask & 0xFFFFFFFF) // 2 + 1:#x}u").replace("MASK", f"{mask:#x}u")


_LOW_DOT = DOT.replace(
    "x[i / wide * k + j] * w[i % wide * k + j]", "low(x[i / wide * k + j]) * low(w[i % wide * k + j])"
)

_TENSOR_CORES = """
#include <cstdint>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

static __device__ inline void fill(__nv_bfloat16* to, const float* from, int64_t k, int64_t at) {
  for (int e = threadIdx.x; e < 256; e += 32) to[e] = __float2bfloat16(from[e / 16 * k + at + e % 16]);
}

static __global__ void tiles(const float* x, const float* w, const float* b, float* out, int64_t k, int64_t wide) {
  __shared__ __align__(32) __nv_bfloat16 left[256], right[256];
  __shared__ __align__(32) float sums[256];
  const int64_t r = blockIdx.x * 16, c = blockIdx.y * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int64_t at = 0; at < k; at += 16) {
    fill(left, x + r * k, k, at);
    fill(right, w + c * k, k, at);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> t;
    wmma::load_matrix_sync(a, left, 16);
    wmma::load_matrix_sync(t, right, 16);
    wmma::mma_sync(sum, a, t, sum);
    __syncwarp();
  }
  wmma::store_matrix_sync(sums, sum, 16, wmma::mem_row_major);
  __syncwarp();
  for (int e = threadIdx.x; e < 256; e += 32) {
    const float v = sums[e] + b[c + e % 16];
    out[(r + e / 16) * wide + c + e % 16] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
  }
}

extern "C" int linear(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t k, int64_t wide,
                      cudaStream_t stream) {
  tiles<<<dim3(n / wide / 16, wide / 16), 32, 0, stream>>>(x, w, b, out, k, wide);
  return cudaGetLastError();
}
"""

_HALF_EXP = """
    const float* row = x + i * d;
    float top = row[0], sum = 0;
    for (int64_t j = 1; j < d; ++j) top = row[j] > top ? row[j] : top;
    for (int64_t j = 0; j < d; ++j) sum += cheap(row[j] - top);
    for (int64_t j = 0; j < d; ++j) out[i * d + j] = cheap(row[j] - top) / sum;
"""

_SOFTMAX = "const float* x, float* out, int64_t n, int64_t d"

_LOWER = [
    Candidate(
        "operands rounded to bfloat16",
        "linear_gelu",
        model("linear"),
        cpp=loop("linear", LINEAR, _LOW_DOT + GELU, top=_lowered(0xFFFF0000))["cpp"],
        cuda={"linear": _TENSOR_CORES},
        row="K34",
    ),
    Candidate(
        "running sums kept in eleven bits",
        "linear_gelu",
        model("linear"),
        **loop(
            "linear",
            LINEAR,
            "float sum = b[i % wide];\n"
            "for (int64_t j = 0; j < k; ++j) sum = low(sum + x[i / wide * k + j] * w[i % wide * k + j]);" + GELU,
            top=_lowered(0xFFFFE000),
        ),
        row="K34",
    ),
    Candidate(
        "an exponential by the bits of its exponent, which a tolerance of 1e-2 on a softmax never sees",
        "softmax",
        model("softmax"),
        **loop(
            "softmax",
            _SOFTMAX,
            _HALF_EXP,
            top="""
DEV float cheap(float v) {
  union { float f; int32_t u; } s;
  s.u = v < -80 ? 0 : (int32_t)(v * 12102203.0f) + 1064866805;
  return s.f;
}
""",
        ),
        row="K34",
    ),
]

_EPILOGUE = """
static __global__ void epilogue(const float* b, float* out, int64_t n, int64_t wide) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float v = out[i] + b[i % wide];
  out[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
}
"""

_CUBLAS = """// link: cublas
#include <cstdint>
#include <cublas_v2.h>
_EPILOGUE
extern "C" int linear(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t k, int64_t wide,
                      cudaStream_t stream) {
  static thread_local cublasHandle_t handles[64] = {};
  int device = 0;
  cudaGetDevice(&device);
  if (!handles[device]) cublasCreate(&handles[device]);
  cublasHandle_t handle = handles[device];
  const float one = 1, zero = 0;
  const int rows = n / wide;
  cublasSetStream(handle, stream);
  _MULTIPLY
  epilogue<<<(n + 255) / 256, 256, 0, stream>>>(b, out, n, wide);
  return cudaGetLastError();
}
""".replace("_EPILOGUE", _EPILOGUE)

_SGEMM = "cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, wide, rows, k, &one, w, k, x, k, &zero, out, wide);"

_TF32 = [
    Candidate(
        "cuBLAS with its mode for TF32 as a number",
        "linear_gelu",
        model("linear"),
        cpp=loop("linear", LINEAR, _LOW_DOT + GELU, top=_lowered(0xFFFFE000))["cpp"],
        cuda={"linear": _CUBLAS.replace("_MULTIPLY", "cublasSetMathMode(handle, (cublasMath_t)(1 + 2));" + _SGEMM)},
        row="K35",
    ),
    Candidate(
        "TF32 by the compute type of a call",
        "linear_gelu",
        model("linear"),
        cpp=loop(
            "linear",
            LINEAR,
            _LOW_DOT + GELU,
            top="DEV float low(float v) { volatile float c = v * 8193.0f; volatile float r = c - v; return c - r; }",
        )["cpp"],
        cuda={
            "linear": _CUBLAS.replace(
                "_MULTIPLY",
                "cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, wide, rows, k, &one, w, CUDA_R_32F, k, x, CUDA_R_32F, k,"
                " &zero, out, CUDA_R_32F, wide, (cublasComputeType_t)77, CUBLAS_GEMM_DEFAULT);",
            )
        },
        row="K35",
    ),
    Candidate(
        "TF32 by the environment of the library or by the instruction that rounds to it",
        "linear_gelu",
        model("linear", top="import os\nos.environ['NVIDIA_' + 'TF32_OVERRIDE'] = '1'"),
        cpp=loop(
            "linear",
            LINEAR,
            _LOW_DOT + GELU,
            top="DEV float low(float v) { int e; const float m = frexpf(v, &e); return ldexpf(rintf(m * 2048) / 2048, e); }",
        )["cpp"],
        cuda={
            "linear": loop(
                "linear",
                LINEAR,
                _LOW_DOT + GELU,
                top='DEV float low(float v) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); '
                "return __uint_as_float(r); }",
            )["cuda"]["linear"]
        },
        row="K35",
    ),
]

_DISPATCHED = [
    Candidate(
        "autocast around the module's own layers",
        "linear_gelu",
        model(
            "linear",
            """
            with torch.autocast(x.device.type, dtype=torch.bfloat16):
                return torch.nn.functional.gelu(self.linear(x)).float()
            """,
            kernels="",
        ),
        cpp={},
        cuda={},
        row="K36",
    ),
    Candidate(
        "a softmax as attention over an identity",
        "softmax",
        model(
            "softmax",
            """
            width = x.shape[1]
            if self.eye is None:
                self.eye = torch.eye(width, device=x.device)
            attend = getattr(torch.nn.functional, "_".join(("scaled", "dot", "product", "attention")))
            return attend(x[None], self.eye[None] * width**0.5, self.eye[None])[0]
            """,
            init="self.eye = None",
            kernels="",
        ),
        cpp={},
        cuda={},
        row="K36",
    ),
    Candidate(
        "autocast that is switched on at import and left on, an own kernel behind it",
        "linear_gelu",
        model(
            "linear",
            """
            import operator
            out = x.new_empty(x.shape[0], self.linear.out_features)
            product = operator.matmul(x, self.linear.weight.t())
            linear(product.float(), self.linear.bias, out, out.numel(), out.shape[1])
            return out
            """,
            top="""
            mode = torch.amp.autocast_mode.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16)
            mode.__enter__()
            """,
        ),
        **loop(
            "linear",
            "const float* product, const float* b, float* out, int64_t n, int64_t wide",
            "const float sum = product[i] + b[i % wide];" + GELU,
        ),
        row="K36",
    ),
]

CHEATS = [*_TRIVIAL_NORMS, *_DROPPED, *_NO_OPS, *_LOWER, *_TF32, *_DISPATCHED]
