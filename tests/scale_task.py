"""The small task that many tests judge, ``relu(x * w + y)``: its file, a right candidate, and room for lines that spoil it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sandbox.task import TaskSpec

Write = Callable[..., Path]
"""Writes a candidate, ``write(kernel_source, python)``, and returns its folder."""


def reference(rows: int = 32, columns: int = 1024) -> str:
    """A KernelBench file of the task, at a size."""
    return f"""
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        return torch.relu(x * self.weight + y)

def get_inputs():
    return [torch.randn({rows}, {columns}), torch.randn({rows}, {columns})]

def get_init_inputs():
    return [{columns}]
"""


REFERENCE = reference()

MODEL_NEW = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        out = torch.empty_like(x)
        scale_add(x, self.weight, y, out, x.shape[0], x.shape[1])
        return out
"""

TRAINED = """
import torch
from torch import nn
from kernels import scale_add, scale_add_backward

class ScaleAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, y):
        out = torch.empty_like(x)
        scale_add(x, weight, y, out, x.shape[0], x.shape[1])
        ctx.save_for_backward(x, weight, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, out = ctx.saved_tensors
        gx, gw, gy = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(x)
        scale_add_backward(x, weight, out, grad, gx, gw, gy, x.shape[0], x.shape[1])
        return gx, gw, gy

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        return ScaleAdd.apply(x, self.weight, y)
"""
"""The same where the module is trained: its kernels have a backward as well."""

_CPU_KERNEL = """
#include <cstdint>
INCLUDES
extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  BEFORE
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j) {
      float value = x[i * d + j] * w[j] + y[i * d + j];
      out[i * d + j] = value > 0 ? value : 0;
    }
  AFTER
  return 0;
}
"""

_CUDA_KERNEL = """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void scale_add_kernel(const float4* x, const float4* w, const float4* y, float4* out, int64_t n, int64_t d) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float4 a = x[i], b = w[i % d], c = y[i];
  BODY
  out[i] = make_float4(fmaxf(a.x * b.x + c.x, 0.f), fmaxf(a.y * b.y + c.y, 0.f),
                       fmaxf(a.z * b.z + c.z, 0.f), fmaxf(a.w * b.w + c.w, 0.f));
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d,
                         cudaStream_t stream) {
  int64_t vectors = n * d / 4;
  LAUNCH
  scale_add_kernel<<<(vectors + 255) / 256, 256, 0, stream>>>((const float4*)x, (const float4*)w, (const float4*)y,
                                                              (float4*)out, vectors, d / 4);
  return cudaGetLastError();
}
"""


def kernel(before: str = "", after: str = "", includes: str = "") -> str:
    """The right kernel for the CPU, with something before and after its loop."""
    named = "\n".join(f"#include <{name}>" for name in includes.split())
    return _CPU_KERNEL.replace("INCLUDES", named).replace("BEFORE", before).replace("AFTER", after)


def cuda_kernel(body: str = "", launch: str = "") -> str:
    """The right kernel for a GPU, with something in its body and before its launch."""
    return _CUDA_KERNEL.replace("BODY", body).replace("LAUNCH", launch)


def write_candidate(folder: Path, source: str | None = None, python: str = MODEL_NEW, suffix: str = ".cpp") -> Path:
    """Write a workspace of the task, by default with the right kernel, and return its folder."""
    right = kernel() if suffix == ".cpp" else cuda_kernel()
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    (folder / "model_new.py").write_text(python)
    (folder / "kernels" / f"scale_add{suffix}").write_text(right if source is None else source)
    return folder


def write_task(folder: Path, source: str = REFERENCE, **changes: object) -> TaskSpec:
    """Write a KernelBench file into a project of its own and return its spec."""
    project = folder / "project"
    project.mkdir()
    path = project / "scale.py"
    path.write_text(source)
    spec = TaskSpec("kernelbench", path, "Model", "scale", project, Path(sys.executable))
    return spec.with_changes(**changes)
