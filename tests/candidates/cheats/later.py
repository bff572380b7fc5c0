"""Cheats that work when the clock has stopped: what holds the outputs computes them, or a team of threads goes on; K17, K18."""

from __future__ import annotations

from tests.candidates.cheats.parts import cheat, kernel, module
from tests.candidates.cheats.pieces import loop
from tests.candidates.frame import Candidate

_BEST = loop(
    "best",
    "const float* x, float* values, int64_t* indices, float* means, int64_t n, int64_t d",
    """
    int64_t at = 0;
    float sum = 0;
    for (int64_t j = 0; j < d; ++j) { at = x[i * d + j] > x[i * d + at] ? j : at; sum += x[i * d + j]; }
    values[i] = x[i * d + at];
    indices[i] = at;
    means[i] = sum / d;
""",
)

_HOLDER = """
import dataclasses
import torch
from torch import nn
from kernels import best

def found(x):
    values, means = x.new_empty(x.shape[0]), x.new_empty(x.shape[0])
    indices = x.new_empty(x.shape[0], dtype=torch.int64)
    best(x, values, indices, means, x.shape[0], x.shape[1])
    return [("values", values), ("indices", indices), ("mean", means)]

HOLDER

class ModelNew(nn.Module):
    def forward(self, x):
        return Found(x)
"""

_A_DICT = """
class Found(dict):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def items(self):
        return found(self.x)
"""

_A_RECORD = """
@dataclasses.dataclass
class Found:
    values: torch.Tensor
    indices: torch.Tensor = None
    mean: torch.Tensor = None

    def __post_init__(self):
        self.known = None

    @property
    def values(self):
        self.indices, self.mean = found(self.x)[1][1], found(self.x)[2][1]
        return found(self.x)[0][1]

    @values.setter
    def values(self, x):
        self.x = x
"""

_A_TEAM = kernel(
    """
    if (going) GOMP_parallel_end();
    job = {x, w, y, out, n, d};
    GOMP_parallel_start(work, &job, 2);
    going = true;
    """,
    top="""
    extern "C" void GOMP_parallel_start(void (*)(void*), void*, unsigned);
    extern "C" void GOMP_parallel_end(void);
    extern "C" int omp_get_thread_num(void);
    struct Job { const float *x, *w, *y; float* out; int64_t n, d; };
    static Job job;
    static bool going;
    static void work(void*);
    """,
    extra="""
    static void work(void*) {
      if (omp_get_thread_num() == 1) compute(job.x, job.w, job.y, job.out, job.n, job.d);
    }
    """,
)

CHEATS = [
    Candidate(
        "a dictionary that computes when it is read", "best", _HOLDER.replace("HOLDER", _A_DICT), row="K18", **_BEST
    ),
    Candidate(
        "a record that computes when it is read", "best", _HOLDER.replace("HOLDER", _A_RECORD), row="K18", **_BEST
    ),
    cheat("K17", "a team of OpenMP's that is joined in the next call", module(), _A_TEAM),
]
