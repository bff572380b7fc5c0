"""Cheats with output memory, aliasing and peeking: rows K01 to K08."""

from __future__ import annotations

from tests.candidates.frame import Candidate

CHEATS = [
    Candidate(
        "returns memory as it was handed out",
        "scale_add",
        """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        out = torch.empty_like(x)
        scale_add(x, self.weight, y, out, 0)
        return out
""",
        cpp={
            "scale_add": """
#include <cstdint>
extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * w[i] + y[i];
  return 0;
}
"""
        },
        row="K01",
    ),
]
