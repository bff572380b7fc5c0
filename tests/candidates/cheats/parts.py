"""What cheats are written from: a right module and a right kernel of ``relu(x * weight + y)``, with room for a trick.

Words in capitals make one text serve a CPU and a GPU: ``COMPUTE(x, w, y, out)`` runs the right kernel, ``COPY(to, from, n)``
copies floats, ``ZERO(to, n)`` clears and ``ROOM(pointer, n)`` allocates them, ``STREAM`` and ``ON_STREAM`` are a launcher's
last parameter and argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent, indent

from tests.candidates.frame import Candidate

ELEMENT = "out[i] = v < 0 ? 0.0f : v;"
"""What the right kernel does with each ``v = x[i] * w[j] + y[i]``."""

HONEST = "return computed(x, self.weight, y)"
"""The right forward."""

_MODULE = """
import torch
from torch import nn
from kernels import KERNELS
TOP
def computed(x, weight, y):
    out = torch.empty_like(x)
    scale_add(x, weight, y, out, x.shape[0], x.shape[1])
    return out

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
INIT
    def forward(self, x, y):
FORWARD
"""

_CPP = """
#include <cstdint>
#include <cstdlib>
#include <cstring>
TOP
static void compute(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  for (int64_t i = 0; i < n * d; ++i) {
    const float v = x[i] * w[i % d] + y[i];
    ELEMENT
  }
}
"""

_CUDA = """
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
TOP
static __global__ void compute(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n * d) return;
  const float v = x[i] * w[i % d] + y[i];
  ELEMENT
}
"""

_LAUNCHER = """
extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d STREAM) {
  BODY
  return STATUS;
}
"""

_WORDS = {
    "cpp": {
        r"COMPUTE\((.*?)\);": r"compute(\1, n, d);",
        r"COPY\((.*?), (.*?), (.*?)\);": r"std::memcpy(\1, \2, (\3) * sizeof(float));",
        r"ZERO\((.*?), (.*?)\);": r"std::memset(\1, 0, (\2) * sizeof(float));",
        r"ROOM\((.*?), (.*?)\);": r"\1 = (float*)std::malloc((\2) * sizeof(float));",
        r",? ?\bON_STREAM\b": "",
        r"[ ,]*\bSTREAM\b": "",
        r"\bSTATUS\b": "0",
    },
    "cuda": {
        r"COMPUTE\((.*?)\);": r"compute<<<(n * d + 255) / 256, 256, 0, stream>>>(\1, n, d);",
        r"COPY\((.*?), (.*?), (.*?)\);": r"cudaMemcpyAsync(\1, \2, (\3) * sizeof(float), cudaMemcpyDefault, stream);",
        r"ZERO\((.*?), (.*?)\);": r"cudaMemsetAsync(\1, 0, (\2) * sizeof(float), stream);",
        r"ROOM\((.*?), (.*?)\);": r"cudaMalloc(&\1, (\2) * sizeof(float));",
        r"\bON_STREAM\b": "stream",
        r"[ ,]*\bSTREAM\b": ", cudaStream_t stream",
        r"\bSTATUS\b": "cudaGetLastError()",
    },
}


@dataclass(frozen=True)
class Kernel:
    """The kernel files of a candidate on each device; None where there are none."""

    cpp: dict[str, str] | None
    cuda: dict[str, str] | None

    def beside(self, other: Kernel) -> Kernel:
        """Return this one's text for the CPU and another's for a GPU."""
        return Kernel(self.cpp, other.cuda)

    def only_cuda(self) -> Kernel:
        """Return the same without a meaning on a CPU."""
        return Kernel(None, self.cuda)


def kernel(
    body: str = "COMPUTE(x, w, y, out);",
    top: str = "",
    element: str = ELEMENT,
    extra: str = "",
    cuda: str | None = None,
) -> Kernel:
    """The right kernel with something else in it.

    Args:
        body: What the launcher does.
        top: What stands before everything.
        element: What is done with each element.
        extra: Further launchers.
        cuda: The launcher's body on a GPU where it differs.
    """
    return Kernel(
        _files("cpp", _CPP, body, top, element, extra),
        _files("cuda", _CUDA, body if cuda is None else cuda, top, element, extra),
    )


def module(forward: str = HONEST, top: str = "", init: str = "", kernels: str = "scale_add") -> str:
    """The right module with another forward, lines before its class, and lines at the end of its constructor."""
    words = {"KERNELS": kernels, "TOP": dedent(top), "INIT": _lines(init), "FORWARD": _lines(forward)}
    return _filled(_MODULE, words)


def cheat(row: str, name: str, python: str, files: Kernel | None = None, task: str = "scale_add") -> Candidate:
    """A cheat of a row of the catalogue; without files it has the right kernel."""
    files = files or kernel()
    return Candidate(name, task, python, cpp=files.cpp, cuda=files.cuda, row=row)


def plain(cpp: str, cuda: str, name: str = "linear") -> Kernel:
    """Kernel files written out in full."""
    return Kernel({name: cpp}, {name: cuda})


def _lines(text: str) -> str:
    return indent(dedent(text).strip("\n"), 8 * " ")


def _files(device: str, template: str, body: str, top: str, element: str, extra: str) -> dict[str, str]:
    words = {"TOP": dedent(top).strip(), "ELEMENT": element, "BODY": dedent(body).strip()}
    text = _filled(template + dedent(extra) + _LAUNCHER, words)
    for word, replaced in _WORDS[device].items():
        text = re.sub(word, replaced, text)
    return {"scale_add": text}


def _filled(template: str, words: dict[str, str]) -> str:
    for word, text in words.items():
        template = re.sub(rf"\b{word}\b", lambda _, text=text: text, template)
    return template
