"""The reference of a reduction over a region, and the kernel of it that lacks a line."""

from __future__ import annotations

from trainer.tasks.reductions import Operator, Region
from trainer.tasks.task import Files

SHAPES = {"cpu": (512, 4096), "cuda": (2048, 8192)}
"""Rows and columns: so many that reading all of them costs several times what a region needs."""

_REFERENCE = """\
import math

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        i = torch.arange(rows, device=x.device)[:, None]
        j = torch.arange(columns, device=x.device)
        return torch.where({mask}, {value}, {identity}).{reduction}(dim=1)


def get_inputs():
    return [torch.randn({rows}, {columns})]


def get_init_inputs():
    return []
"""

_CANDIDATE = """\
import torch
from torch import nn
from kernels import reduce_rows


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        reduce_rows(x, out, x.shape[0], x.shape[1])
        return out
"""

_READ = {
    "cpu": "((const volatile float*)x)[int64_t(i) * columns + j]",
    "cuda": "noted(x[int64_t(i) * columns + j], seen)",
}
_END = {"cpu": "out[i] = total;", "cuda": "out[i] = rows < 0 ? __uint_as_float(seen) : total;"}
"""Every column that the loop goes through is read, though compilers see that only the region counts and would skip the rest."""
_LOOP = """\
float total = {start};
    const int first = {first}, last = {last};
    for (int j = first; j < last; ++j) {{
        const float value = {read};
        if ({condition}) total = {update};
    }}
    {end}"""

_CPP = """\
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

using std::abs, std::max, std::min;

static void reduce_row(const float* x, float* out, int i, int columns) {{
    {loop}
}}

extern "C" int reduce_rows(const float* x, float* out, int rows, int columns) {{
    for (int i = 0; i < rows; ++i) reduce_row(x, out, i, columns);
    return 0;
}}
"""

_CU = """\
#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

__device__ float noted(float value, unsigned& seen) {{
    seen ^= __float_as_uint(value);
    return value;
}}

__global__ void reduce_row(const float* x, float* out, int rows, int columns) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    unsigned seen = 0;
    {loop}
}}

extern "C" int reduce_rows(const float* x, float* out, int rows, int columns, cudaStream_t stream) {{
    reduce_row<<<(rows + 63) / 64, 64, 0, stream>>>(x, out, rows, columns);
    return cudaGetLastError();
}}
"""


def reference_of(operator: Operator, region: Region, kind: str) -> str:
    """Return the KernelBench file of a reduction over a region, for ``cpu`` or ``cuda``."""
    rows, columns = SHAPES[kind]
    return _REFERENCE.format(
        mask=region.mask,
        value=operator.value,
        identity=operator.identity,
        reduction=operator.reduction,
        rows=rows,
        columns=columns,
    )


def candidate_of(operator: Operator, region: Region, kind: str, first: str, last: str, update: str) -> Files:
    """Return the candidate whose loop goes from ``first`` to ``last`` and updates its total so: expressions in C++."""
    loop = _LOOP.format(
        start=operator.start,
        first=first,
        last=last,
        read=_READ[kind],
        condition=region.condition,
        update=update,
        end=_END[kind],
    )
    template, suffix = (_CPP, "cpp") if kind == "cpu" else (_CU, "cu")
    return {
        "model_new.py": _CANDIDATE.encode(),
        f"kernels/reduce_rows.{suffix}": template.format(loop=loop).encode(),
    }
