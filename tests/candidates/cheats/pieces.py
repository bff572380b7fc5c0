"""What many cheats are made of: a loop that is a plain one on a CPU and a kernel on a GPU, and the modules that call it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

Files = Mapping[str, Mapping[str, str]]
"""Kernel files by device, ``cpp`` and ``cuda``, as a candidate takes them."""

_CPP = """
#include <cmath>
#include <cstdint>
#include <cstring>
#define DEV static inline
TOP
extern "C" int NAME(PARAMETERS) {
  BEFORE
  for (int64_t i = 0; i < n; ++i) {
    BODY
  }
  AFTER
  return 0;
}
"""

_CUDA = """
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_runtime.h>
#define DEV static __device__ inline
TOP
static __global__ void NAME_kernel(PARAMETERS) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) {
    BODY
  }
}
extern "C" int NAME(PARAMETERS, cudaStream_t stream) {
  BEFORE
  if (n > 0) NAME_kernel<<<(n + 127) / 128, 128, 0, stream>>>(ARGUMENTS);
  AFTER
  return cudaGetLastError();
}
"""

SCALE_ADD = "const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d"
"""Of ``relu(x * w + y)``, element by element: ``n`` elements, ``d`` columns."""

RIGHT = "const float v = x[i] * w[i % d] + y[i]; out[i] = v > 0 ? v : 0;"
"""The right body for it."""

LINEAR = "const float* x, const float* w, const float* b, float* out, int64_t n, int64_t k, int64_t wide"
"""Of ``gelu(linear(x))``, output by output: ``n`` outputs, rows of ``k``, ``wide`` outputs a row."""

GELU = "out[i] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));"

ROWS = "const float* x, const float* w, const float* b, float* out, int64_t n, int64_t d, float eps"
"""Of a layer norm, row by row."""

NORM = """
    const float* row = x + i * d;
    float mean = 0, var = 0;
    for (int64_t j = 0; j < d; ++j) mean += row[j];
    mean /= d;
    for (int64_t j = 0; j < d; ++j) var += (row[j] - mean) * (row[j] - mean);
    const float scale = 1.0f / sqrtf(var / d + eps);
"""
"""Mean and scale of a row, as a right layer norm needs them."""

NORMED = NORM + "for (int64_t j = 0; j < d; ++j) out[i * d + j] = (row[j] - mean) * scale * w[j] + b[j];"
"""The right body of a layer norm."""

DOT = """
    float sum = b[i % wide];
    for (int64_t j = 0; j < k; ++j) sum += x[i / wide * k + j] * w[i % wide * k + j];
"""
"""An output of a right linear layer, before its activation."""


def loop(name: str, parameters: str, body: str, top: str = "", before: str = "", after: str = "") -> Files:
    """Return the files of a launcher that does ``body`` for each ``i`` below its parameter ``n``, for both devices."""
    words = {"TOP": top, "BEFORE": before, "BODY": body, "AFTER": after, "PARAMETERS": parameters, "NAME": name}
    words["ARGUMENTS"] = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
    return {"cpp": {name: _filled(_CPP, words)}, "cuda": {name: _filled(_CUDA, words)}}


def together(*files: Files) -> Files:
    """Return several launchers' files as those of one candidate."""
    return {device: {name: text for each in files for name, text in each[device].items()} for device in ("cpp", "cuda")}


def _filled(template: str, words: Mapping[str, str]) -> str:
    return re.sub(r"[A-Z]{3,}", lambda match: words.get(match.group(), match.group()), template)


_MODULES = {
    "scale_add": (
        "dim",
        "self.weight = nn.Parameter(torch.ones(dim))",
        "x, y",
        """
        out = torch.empty_like(x)
        scale_add(x, self.weight, y, out, x.numel(), x.shape[1])
        return out
""",
    ),
    "linear": (
        "width, out",
        "self.linear = nn.Linear(width, out)",
        "x",
        """
        out = x.new_empty(x.shape[0], self.linear.out_features)
        linear(x, self.linear.weight, self.linear.bias, out, out.numel(), x.shape[1], out.shape[1])
        return out
""",
    ),
    "layernorm": (
        "dim",
        "self.norm = nn.LayerNorm(dim)",
        "x",
        """
        out = torch.empty_like(x)
        layernorm(x, self.norm.weight, self.norm.bias, out, x.shape[0], x.shape[1], self.norm.eps)
        return out
""",
    ),
    "softmax": (
        "",
        "",
        "x",
        """
        out = torch.empty_like(x)
        softmax(x, out, x.shape[0], x.shape[1])
        return out
""",
    ),
}


def model(kind: str, forward: str = "", top: str = "", init: str = "", kernels: str | None = None) -> str:
    """Return a module that calls the kernel of its name as it should, with what a cheat does otherwise.

    Args:
        kind: ``scale_add``, ``linear``, ``layernorm`` or ``softmax``.
        forward: Another body of forward.
        top: Lines below the imports.
        init: Lines at the end of the constructor.
        kernels: Other names to import; none where it is empty.
    """
    sizes, state, inputs, right = _MODULES[kind]
    names = kind if kernels is None else kernels
    return f"""
import torch
from torch import nn
{f"from kernels import {names}" if names else ""}
{textwrap.dedent(top)}

class ModelNew(nn.Module):
    def __init__(self, {sizes}):
        super().__init__()
        {state}
{textwrap.indent(textwrap.dedent(init), " " * 8)}

    def forward(self, {inputs}):
{textwrap.indent(textwrap.dedent(forward or right), " " * 8)}
"""
