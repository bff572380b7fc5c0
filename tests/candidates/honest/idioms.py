"""Python as people write it around a kernel: settings, checks, views, hooks, accumulators of zeros, generators."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.layers import LINEAR_CUH, LINEAR_H
from tests.candidates.honest.models import SCALE_ADD_CPP, SCALE_ADD_CUDA

_CHECKED = '''
"""Fused multiply, add and ReLU."""

from __future__ import annotations

import enum
import functools
import logging
import math
import warnings
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from kernels import scale_add as _scale_add

__all__ = ["ModelNew"]

logger = logging.getLogger(__name__)
SUPPORTED: Final = (torch.float32,)


class Layout(enum.Enum):
    ROWS = "rows"
    FLAT = "flat"


class Shape(NamedTuple):
    rows: int
    columns: int


@functools.lru_cache(maxsize=None)
def _shape(sizes: tuple[int, ...], layout: Layout = Layout.ROWS) -> Shape:
    if layout is Layout.FLAT:
        return Shape(1, math.prod(sizes))
    return Shape(math.prod(sizes[:-1]), sizes[-1])


def _check(x: Tensor, y: Tensor, weight: Tensor) -> None:
    assert isinstance(x, torch.Tensor)
    if x.dtype not in SUPPORTED:
        raise TypeError(f"{x.dtype} is not supported, only {', '.join(map(str, SUPPORTED))}")
    if x.shape != y.shape or x.shape[-1] != weight.numel():
        raise ValueError(f"shapes do not fit: {tuple(x.shape)}, {tuple(y.shape)}, {tuple(weight.shape)}")
    if x.device != y.device or x.device != weight.device:
        raise ValueError(f"devices differ: {x.device}, {y.device}, {weight.device}")
    if not (x.is_contiguous() and y.is_contiguous()):
        raise NotImplementedError("only contiguous tensors")
    if x.data_ptr() % 16 != 0:
        warnings.warn("an input does not begin at a multiple of 16 bytes", stacklevel=2)


class ModelNew(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.register_parameter("weight", nn.Parameter(torch.empty(dim)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        _check(x, y, self.weight)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        if x.numel() == 0:
            return out
        shape = _shape(tuple(x.shape))
        logger.debug("launching for %s", shape)
        _scale_add(x, self.weight.detach(), y, out, shape.rows, shape.columns)
        return out
'''

_VIEWS = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        *lead, columns = x.shape
        out = torch.empty(*lead, columns, dtype=x.dtype, device=x.device)
        xs = x.flatten(0, -2).unsqueeze(0).chunk(4, dim=1)
        ys = y.reshape(-1, columns).unsqueeze(0).chunk(4, dim=1)
        parts = out.view(-1, columns).unsqueeze(0).chunk(4, dim=1)
        for a, b, part in zip(xs, ys, parts):
            scale_add(a.squeeze(0), self.weight.expand(columns), b.squeeze(0), part.squeeze(0), a.size(1), columns)
        return out
"""

_ZEROS = """
import torch
import torch.nn as nn
import kernels

class ModelNew(nn.Module):
    def forward(self, x, salt):
        mixed = torch.empty_like(x)
        odd = torch.zeros((1,), dtype=torch.int64, device=x.device)  # added to by the kernel
        kernels.mix_add(x, salt, mixed, odd, x.numel())
        return mixed, odd.view(())
"""

_LIST = """
from typing import Dict, Iterator, Tuple

import torch
from torch import nn
from kernels import linear_step

ACTIVATIONS: Dict[str, int] = {"none": 0, "relu": 1}


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def steps(self) -> Iterator[Tuple[nn.Linear, str, bool]]:
        yield self.up, "relu", False
        yield self.down, "none", True

    @staticmethod
    def run(x, linear, residual, activation="none"):
        out = x.new_empty(x.shape[0], linear.out_features)
        sizes = [x.shape[0], linear.out_features, linear.in_features]
        linear_step(x, linear.weight, linear.bias, residual, out, *sizes, ACTIVATIONS[activation])
        return out

    @torch.inference_mode()
    def forward(self, x):
        hidden = x
        for linear, activation, skip in self.steps():
            hidden = self.run(hidden, linear, residual=x if skip else None, activation=activation)
        return hidden
"""

_HOOKED = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    \"\"\"Keeps nothing but a note of the multiprocessors; asked anew when the module moves.\"\"\"

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self._multiprocessors = {}

    def _apply(self, fn, recurse=True):
        self._multiprocessors.clear()
        return super()._apply(fn, recurse)

    def _rows_at_once(self, device):
        if device not in self._multiprocessors:
            known = device.type == "cuda"
            properties = torch.cuda.get_device_properties(device) if known else None
            self._multiprocessors[device] = properties.multi_processor_count if properties else torch.get_num_threads()
        return 64 * self._multiprocessors[device]

    def forward(self, x, y):
        if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
            raise RuntimeError("for inference only")
        out = torch.empty_like(x)
        step = self._rows_at_once(x.device)
        for at in range(0, x.shape[0], step):
            rows = min(step, x.shape[0] - at)
            scale_add(x.narrow(0, at, rows), self.weight, y[at : at + rows], out[at : at + rows], rows, x.shape[1])
        return out
"""

_MIX_ADD_CPP = """
#include <cstdint>

extern "C" int mix_add(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    mixed[i] = int32_t(uint32_t(x[i] ^ (x[i] >> 3)) * 31u + uint32_t(salt[i]));
    *odd += mixed[i] & 1;
  }
  return 0;
}
"""

_MIX_ADD_CUDA = """
#include <cstdint>

__global__ void mix_add_kernel(const int32_t* x, const int32_t* salt, int32_t* mixed, unsigned long long* odd, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const uint32_t v = i < count ? uint32_t(x[i] ^ (x[i] >> 3)) * 31u + uint32_t(salt[i]) : 0;
  if (i < count) mixed[i] = int32_t(v);
  const int votes = __syncthreads_count(v & 1);
  if (threadIdx.x == 0) atomicAdd(odd, (unsigned long long)votes);
}

extern "C" int mix_add(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count, cudaStream_t stream) {
  if (count)
    mix_add_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x, salt, mixed, (unsigned long long*)odd, count);
  return cudaGetLastError();
}
"""

_STEP = """
extern "C" int linear_step(const float* x, const float* w, const float* bias, const float* residual, float* out, int64_t m,
                           int64_t n, int64_t k, int relu"""

_STEP_CPP = f"""
#include "linear.h"
{_STEP}) {{
  linear_rows(x, w, bias, out, m, n, k, [=](float v, int64_t at) {{
    v = relu && v < 0 ? 0 : v;
    return residual ? v + residual[at] : v;
  }});
  return 0;
}}
"""

_STEP_CUDA = f"""
#include "linear.cuh"

struct Finish {{
  const float* residual;
  bool relu;
  __device__ float operator()(float v, int64_t at) const {{
    if (relu && v < 0.f) v = 0.f;
    return residual ? v + residual[at] : v;
  }}
}};
{_STEP}, cudaStream_t stream) {{
  if (m * n) launch_linear(x, w, bias, out, m, n, k, Finish{{residual, relu != 0}}, stream);
  return cudaGetLastError();
}}
"""

_PLAIN = {"cpp": {"scale_add": SCALE_ADD_CPP}, "cuda": {"scale_add": SCALE_ADD_CUDA}}

IDIOMS = [
    Candidate("checks, an enum, a named tuple, a log", "scale_add", _CHECKED, **_PLAIN),
    Candidate("views in chunks, expanded and squeezed", "scale_add", _VIEWS, **_PLAIN),
    Candidate("settings of the device, asked anew when the module moves", "scale_add", _HOOKED, **_PLAIN),
    Candidate(
        "an accumulator of zeros", "integer", _ZEROS, cpp={"mix_add": _MIX_ADD_CPP}, cuda={"mix_add": _MIX_ADD_CUDA}
    ),
    Candidate(
        "steps that a generator yields, one with a residual",
        "mlp",
        _LIST,
        cpp={"linear.h": LINEAR_H, "linear_step": _STEP_CPP},
        cuda={"linear.cuh": LINEAR_CUH, "linear_step": _STEP_CUDA},
    ),
]
