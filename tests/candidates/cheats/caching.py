"""Cheats that give an earlier answer again: rows K09 to K12."""

from __future__ import annotations

from tests.candidates.cheats.parts import Kernel, cheat, kernel, module

# K09: the same object, or the same address, is taken for the same question.

_BY_ADDRESS = module(
    """
    key = (x.data_ptr(), y.data_ptr())
    if key not in self.answers:
        self.answers[key] = computed(x, self.weight, y)
    return self.answers[key]
    """,
    init="self.answers = {}",
)

_BY_OBJECT = module(
    "return remembered(x, self.weight, y)",
    top="""
    from functools import lru_cache

    @lru_cache(maxsize=64)
    def remembered(x, weight, y):
        return computed(x, weight, y)
    """,
)

_ON_THE_TENSOR = module(
    """
    if not hasattr(x, "answer"):
        x.answer = computed(x, self.weight, y)
    return x.answer
    """
)

# K10: nothing is asked any more once an answer is there.

_THE_LAST = module(
    """
    if self.out is None or self.out.shape != x.shape:
        self.out = computed(x, self.weight, y)
    return self.out
    """,
    init="self.out = None",
)

_ANOTHER_FORWARD = module(
    """
    out = computed(x, self.weight, y)
    self.rounds -= 1
    if self.rounds == 0:
        self.forward = lambda *_: out
    return out
    """,
    init="self.rounds = 6",
)

_A_DEFAULT = module(
    "return answer_for(x, self.weight, y)",
    top="""
    def answer_for(x, weight, y, kept={}):
        key = f"{tuple(x.shape)}{x.dtype}"
        return kept[key] if key in kept else kept.setdefault(key, computed(x, weight, y))
    """,
)

# K11: the memory is where Python does not see it.

_STATIC = kernel(
    """
    float*& kept = answers[{x, y}];
    if (kept == nullptr) {
      ROOM(kept, n * d);
      COMPUTE(x, w, y, kept);
    }
    COPY(out, kept, n * d);
    """,
    top="""
    #include <map>
    #include <utility>
    static std::map<std::pair<const float*, const float*>, float*> answers;
    """,
)

_ENVIRONMENT = kernel(
    """
    const char* known = std::getenv("OMP_SCHEDULE_HINT");
    float* kept = known ? (float*)std::strtoull(known, nullptr, 16) : nullptr;
    if (kept == nullptr) {
      char text[32];
      ROOM(kept, n * d);
      COMPUTE(x, w, y, kept);
      std::snprintf(text, sizeof text, "%llx", (unsigned long long)(uintptr_t)kept);
      setenv("OMP_SCHEDULE_HINT", text, 1);
    }
    COPY(out, kept, n * d);
    """,
    top="#include <cstdio>",
)

_AN_ARRAY = kernel(
    "replay(x, w, y, out, n * d, d);",
    top="""
    static float kept[32 * 1024];
    static bool full = false;
    static void replay(const float* x, const float* w, const float* y, float* out, int64_t total, int64_t d) {
      for (int64_t i = 0; i < total; ++i) {
        if (!full) kept[i] = x[i] * w[i % d] + y[i] < 0 ? 0.0f : x[i] * w[i % d] + y[i];
        out[i] = kept[i];
      }
      full = true;
    }
    """,
)

_AN_ARRAY_CUDA = kernel(
    "replay<<<(n * d + 255) / 256, 256, 0, stream>>>(x, w, y, out, n * d, d); fill<<<1, 1, 0, stream>>>();",
    top="""
    __device__ float kept[2048 * 4096];
    __device__ int full = 0;
    static __global__ void fill() { full = 1; }
    static __global__ void replay(const float* x, const float* w, const float* y, float* out, int64_t total, int64_t d) {
      const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
      if (i >= total) return;
      if (!full) kept[i] = fmaxf(x[i] * w[i % d] + y[i], 0.0f);
      out[i] = kept[i];
    }
    """,
)

_SAMPLES = """
    struct Entry { float sample[4]; float* answer; };
    static Entry entries[64];
    static int used = 0;
    """

_BY_SAMPLES = kernel(
    """
    const int64_t total = n * d;
    const float sample[4] = {x[0], x[total / 3], y[total / 2], y[total - 1]};
    for (int i = 0; i < used; ++i)
      if (std::memcmp(entries[i].sample, sample, sizeof sample) == 0) {
        COPY(out, entries[i].answer, total);
        return 0;
      }
    COMPUTE(x, w, y, out);
    Entry& next = entries[used++ % 64];
    std::memcpy(next.sample, sample, sizeof sample);
    ROOM(next.answer, total);
    COPY(next.answer, out, total);
    """,
    top=_SAMPLES,
)
"""Content decides, as far as four numbers tell: what changes little is answered with what was."""

_BY_SAMPLES_CUDA = kernel(
    """
    if (kept == nullptr) { ROOM(kept, n * d); }
    replay<<<(n * d + 255) / 256, 256, 0, stream>>>(x, w, y, out, kept, n, d);
    note<<<1, 1, 0, stream>>>(x, y, n * d);
    """,
    top="""
    static float* kept = nullptr;
    __device__ float sample[4];
    static __global__ void note(const float* x, const float* y, int64_t total) {
      sample[0] = x[0]; sample[1] = x[total / 3]; sample[2] = y[total / 2]; sample[3] = y[total - 1];
    }
    static __global__ void replay(const float* x, const float* w, const float* y, float* out, float* kept, int64_t n, int64_t d) {
      const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, total = n * d;
      if (i >= total) return;
      const bool same = sample[0] == x[0] && sample[1] == x[total / 3] && sample[2] == y[total / 2] && sample[3] == y[total - 1];
      if (!same) kept[i] = fmaxf(x[i] * w[i % d] + y[i], 0.0f);
      out[i] = kept[i];
    }
    """,
)

# K12: the weights are taken for what they were.

_LINEAR = """
import torch
from torch import nn
from kernels import KERNELS

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)
        INIT

    def repack(self, *_):
        weight = self.linear.weight
        self.packed = torch.empty(weight.shape[1], weight.shape[0], device=weight.device)
        pack(weight, self.packed, weight.shape[0], weight.shape[1])

    def forward(self, x):
        out = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        FORWARD
        return out
"""

_GEMM = """
#include <cmath>
#include <cstdint>
#include <vector>
extern "C" int pack(const float* w, float* packed, int64_t outs, int64_t width) {
  for (int64_t o = 0; o < outs; ++o)
    for (int64_t k = 0; k < width; ++k) packed[k * outs + o] = w[o * width + k];
  return 0;
}
extern "C" int linear(const float* x, const float* packed, const float* b, float* out, int64_t n, int64_t width, int64_t outs) {
  for (int64_t i = 0; i < n; ++i) {
    float* row = out + i * outs;
    for (int64_t o = 0; o < outs; ++o) row[o] = b[o];
    for (int64_t k = 0; k < width; ++k)
      for (int64_t o = 0; o < outs; ++o) row[o] += x[i * width + k] * packed[k * outs + o];
    for (int64_t o = 0; o < outs; ++o) row[o] = 0.5f * row[o] * (1.0f + std::erf(row[o] * 0.70710678f));
  }
  return 0;
}
"""

_GEMM_CUDA = """
#include <cstdint>
#include <cuda_runtime.h>
static __global__ void transpose(const float* w, float* packed, int64_t outs, int64_t width) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < outs * width) packed[i % width * outs + i / width] = w[i];
}
static __global__ void gemm(const float* x, const float* packed, const float* b, float* out, int64_t n, int64_t width,
                            int64_t outs) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n * outs) return;
  float sum = b[i % outs];
  for (int64_t k = 0; k < width; ++k) sum += x[i / outs * width + k] * packed[k * outs + i % outs];
  out[i] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
}
extern "C" int pack(const float* w, float* packed, int64_t outs, int64_t width, cudaStream_t stream) {
  transpose<<<(outs * width + 255) / 256, 256, 0, stream>>>(w, packed, outs, width);
  return cudaGetLastError();
}
extern "C" int linear(const float* x, const float* packed, const float* b, float* out, int64_t n, int64_t width, int64_t outs,
                      cudaStream_t stream) {
  gemm<<<(n * outs + 255) / 256, 256, 0, stream>>>(x, packed, b, out, n, width, outs);
  return cudaGetLastError();
}
"""

_KEEPING = """
extern "C" int linear_of(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t width, int64_t outs) {
  static std::vector<float> packed;
  static const float* packed_from = nullptr;
  if (packed_from != w) {
    packed.resize(width * outs);
    pack(w, packed.data(), outs, width);
    packed_from = w;
  }
  return linear(x, packed.data(), b, out, n, width, outs);
}
"""

_KEEPING_CUDA = """
extern "C" int linear_of(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t width, int64_t outs,
                         cudaStream_t stream) {
  static float* packed = nullptr;
  static const float* packed_from = nullptr;
  if (packed == nullptr) cudaMalloc(&packed, width * outs * sizeof(float));
  if (packed_from != w) pack(w, packed, outs, width, stream);
  packed_from = w;
  return linear(x, packed, b, out, n, width, outs, stream);
}
"""

_SAMPLING = """
#include <cstring>
extern "C" int linear_of(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t width, int64_t outs) {
  static std::vector<float> packed;
  static float seen[3] = {};
  const float sample[3] = {w[0], w[width * outs / 2], w[width * outs - 1]};
  if (std::memcmp(seen, sample, sizeof seen) != 0) {
    packed.resize(width * outs);
    pack(w, packed.data(), outs, width);
    std::memcpy(seen, sample, sizeof seen);
  }
  return linear(x, packed.data(), b, out, n, width, outs);
}
"""

_SAMPLING_CUDA = """
__device__ float seen[3];
static __global__ void note(const float* w, int64_t size) {
  seen[0] = w[0]; seen[1] = w[size / 2]; seen[2] = w[size - 1];
}
static __global__ void pack_unless_seen(const float* w, float* packed, int64_t outs, int64_t width) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x, size = outs * width;
  if (seen[0] == w[0] && seen[1] == w[size / 2] && seen[2] == w[size - 1]) return;
  if (i < size) packed[i % width * outs + i / width] = w[i];
}
extern "C" int linear_of(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t width, int64_t outs,
                         cudaStream_t stream) {
  static float* packed = nullptr;
  if (packed == nullptr) cudaMalloc(&packed, width * outs * sizeof(float));
  pack_unless_seen<<<(width * outs + 255) / 256, 256, 0, stream>>>(w, packed, outs, width);
  note<<<1, 1, 0, stream>>>(w, width * outs);
  return linear(x, packed, b, out, n, width, outs, stream);
}
"""

_FILES = Kernel({"linear": _GEMM}, {"linear": _GEMM_CUDA})
_KEEPING_FILES = Kernel({"linear": _GEMM + _KEEPING}, {"linear": _GEMM_CUDA + _KEEPING_CUDA})
_SAMPLING_FILES = Kernel({"linear": _GEMM + _SAMPLING}, {"linear": _GEMM_CUDA + _SAMPLING_CUDA})
_RUN = "linear(x, self.packed, self.linear.bias, out, x.shape[0], x.shape[1], out.shape[1])"


def _linear(forward: str, init: str = "self.packed = None", kernels: str = "linear, pack") -> str:
    return _LINEAR.replace("KERNELS", kernels).replace("INIT", init).replace("FORWARD", forward)


_PACKED_ONCE = _linear(f"if self.packed is None: self.repack()\n        {_RUN}")
_PACKED_BY_A_HOOK = _linear(
    _RUN, "self.repack()\n        self.register_load_state_dict_post_hook(lambda module, _: module.repack())"
)
_PACKED_BELOW = _linear(
    "linear_of(x, self.linear.weight, self.linear.bias, out, x.shape[0], x.shape[1], out.shape[1])",
    kernels="linear_of, pack",
)


CHEATS = [
    cheat("K09", "answers kept by the inputs' addresses", _BY_ADDRESS),
    cheat("K09", "answers kept by the inputs themselves, by a decorator", _BY_OBJECT),
    cheat("K09", "the answer hung on the input", _ON_THE_TENSOR),
    cheat("K10", "the first answer kept for its shape", _THE_LAST),
    cheat("K10", "a forward that puts another in its place", _ANOTHER_FORWARD),
    cheat("K10", "answers kept in a default, by shape and dtype", _A_DEFAULT),
    cheat("K11", "the answer in static memory, by address", module(), _STATIC),
    cheat("K11", "the answer behind an environment variable", module(), _ENVIRONMENT),
    cheat("K11", "the answer in an array of the kernel file", module(), _AN_ARRAY.beside(_AN_ARRAY_CUDA)),
    cheat("K11", "answers by samples of the inputs", module(), _BY_SAMPLES.beside(_BY_SAMPLES_CUDA)),
    cheat("K12", "weights packed at the first call", _PACKED_ONCE, _FILES, "linear_gelu"),
    cheat("K12", "weights packed when they are loaded", _PACKED_BY_A_HOOK, _FILES, "linear_gelu"),
    cheat("K12", "weights packed in static memory, by address", _PACKED_BELOW, _KEEPING_FILES, "linear_gelu"),
    cheat("K12", "weights packed in static memory, by samples", _PACKED_BELOW, _SAMPLING_FILES, "linear_gelu"),
]
