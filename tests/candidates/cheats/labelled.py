"""Not cheats by themselves, but what a reader must be told: rows K37 and K38."""

from __future__ import annotations

from tests.candidates.cheats.pieces import loop
from tests.candidates.frame import Candidate

_SUM = """
import torch
from torch import nn
from kernels import total

class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0])
        total(x, out, x.shape[0], x.shape[1])
        return out
"""

_FOLDED = """
import torch
from torch import nn
from kernels import columns, rows

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        sums, bias, out = x.new_empty(x.shape[1]), x.new_empty(1), x.new_empty(x.shape[0])
        columns(self.linear.weight, self.linear.bias, sums, bias, x.shape[1] + 1, self.linear.out_features)
        rows(x, sums, bias, out, x.shape[0], x.shape[1])
        return out
"""

_COLUMNS = loop(
    "columns",
    "const float* w, const float* b, float* sums, float* bias, int64_t n, int64_t out",
    """
    double sum = 0;
    if (i < n - 1) {
      for (int64_t k = 0; k < out; ++k) sum += w[k * (n - 1) + i];
      sums[i] = sum;
    } else {
      for (int64_t k = 0; k < out; ++k) sum += b[k];
      bias[0] = sum;
    }
""",
)

_ROWS = loop(
    "rows",
    "const float* x, const float* sums, const float* bias, float* out, int64_t n, int64_t d",
    """
    double sum = bias[0];
    for (int64_t j = 0; j < d; ++j) sum += double(x[i * d + j]) * sums[j];
    out[i] = sum;
""",
)

LABELLED = [
    Candidate(
        "the care of a compensated sum left out",
        "careful_sum",
        _SUM,
        **loop(
            "total",
            "const float* x, float* out, int64_t n, int64_t d",
            "float sum = 0; for (int64_t j = 0; j < d; ++j) sum += x[i * d + j]; out[i] = sum;",
        ),
        row="K37",
    ),
    Candidate(
        "a sum over outputs folded into the weights",
        "linear_sum",
        _FOLDED,
        cpp={**_COLUMNS["cpp"], **_ROWS["cpp"]},
        cuda={**_COLUMNS["cuda"], **_ROWS["cuda"]},
        row="K38",
    ),
]
