"""Cheats that lean on how a benchmark is built, and answers of another form: rows K39, K40 and K43."""

from __future__ import annotations

from tests.candidates.cheats.pieces import RIGHT, SCALE_ADD, loop, model
from tests.candidates.frame import Candidate

_TOP = "const float* x, float* out, int64_t n, int64_t d"

_TOP_PYTHON = """
import torch
from torch import nn
from kernels import top

class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0], 8)
        top(x, out, x.shape[0], x.shape[1])
        return out
"""

_INSERT = """
DEV void insert(float* best, float v) {
  for (int t = 0; t < 8; ++t) {
    const float higher = v > best[t] ? v : best[t];
    v = v > best[t] ? best[t] : v;
    best[t] = higher;
  }
}
"""

_TOP_BODY = """
    float best[8];
    for (int t = 0; t < 8; ++t) best[t] = -3e38f;
    const float* row = x + i * d;
    LOOK
    for (int t = 0; t < 8; ++t) out[i * 8 + t] = best[t];
"""

_TWO_OF_EIGHT = """
    for (int64_t j = 0; j + 8 <= d; j += 8) {
      float first = -3e38f, second = -3e38f;
      for (int64_t k = j; k < j + 8; ++k) {
        const float v = row[k];
        second = v > first ? first : (v > second ? v : second);
        first = v > first ? v : first;
      }
      insert(best, first);
      insert(best, second);
    }
"""

_HISTORY = "const float* x, const float* decay, float* out, int64_t n, int64_t length, int64_t c"

_HISTORY_PYTHON = """
import torch
from torch import nn
from kernels import history

class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        out = torch.empty_like(x)
        history(x, self.decay, out, x.numel(), x.shape[1], x.shape[2])
        return out
"""

_STEPS = """
    const int64_t at = i / c % length;
    const float keep = 1.0f / (1.0f + expf(-decay[i % c]));
    float state = 0;
    for (int64_t back = BACK; back >= 0; --back) state = keep * state + (1 - keep) * x[i - back * c];
    out[i] = state;
"""

_TRUNCATED = [
    Candidate(
        "the last 16 steps of a decay that begins at one half",
        "history",
        _HISTORY_PYTHON,
        **loop("history", _HISTORY, _STEPS.replace("BACK", "at < 16 ? at : 16")),
        row="K39",
    ),
    Candidate(
        "blocks of steps that look a little into the one before",
        "history",
        _HISTORY_PYTHON,
        **loop("history", _HISTORY, _STEPS.replace("BACK", "at < 32 ? at : at % 16 + 14")),
        row="K39",
    ),
    Candidate(
        "one decay for all channels, since they begin alike",
        "history",
        _HISTORY_PYTHON,
        **loop("history", _HISTORY, _STEPS.replace("BACK", "at").replace("decay[i % c]", "decay[0]")),
        row="K39",
    ),
    Candidate(
        "the largest eight from the two largest of every eight neighbours",
        "top",
        _TOP_PYTHON,
        **loop("top", _TOP, _TOP_BODY.replace("LOOK", _TWO_OF_EIGHT), top=_INSERT),
        row="K39",
    ),
    Candidate(
        "the largest eight among what is above 1.7, as normal draws are",
        "top",
        _TOP_PYTHON,
        **loop(
            "top",
            _TOP,
            _TOP_BODY.replace("LOOK", "for (int64_t j = 0; j < d; ++j) if (row[j] > 1.7f) insert(best, row[j]);"),
            top=_INSERT,
        ),
        row="K39",
    ),
]

_ANY_SIZE = "const float* x, const float* y, float* out, int64_t n, int64_t d"

_ANY_SIZE_PYTHON = """
import torch
from torch import nn
from kernels import divide

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        divide(x, y, out, x.numel(), x.shape[1])
        return out
"""

_DIVIDE = "out[i] = x[i] / (1.0f + fabsf(y[i]));"

_HARD_CODED = [
    Candidate(
        "the benchmark's number of rows is in the kernel",
        "any_size",
        _ANY_SIZE_PYTHON,
        cpp=loop("divide", _ANY_SIZE, _DIVIDE, before="n = n < 32 * d ? n : 32 * d;")["cpp"],
        cuda=loop("divide", _ANY_SIZE, _DIVIDE, before="n = n < 512 * d ? n : 512 * d;")["cuda"],
        row="K40",
        tier="full",
    ),
    Candidate(
        "what does not fill a vector is left out",
        "any_size",
        _ANY_SIZE_PYTHON,
        **loop("divide", _ANY_SIZE, _DIVIDE, before="n = n / 8 * 8;"),
        row="K40",
        tier="full",
    ),
    Candidate(
        "strides are taken and not heeded",
        "any_size",
        _ANY_SIZE_PYTHON.replace("x.shape[1])", "x.shape[1], *x.stride(), *y.stride())"),
        **loop(
            "divide",
            _ANY_SIZE + ", int64_t x_stride0, int64_t x_stride1, int64_t y_stride0, int64_t y_stride1",
            _DIVIDE,
        ),
        row="K40",
        tier="full",
    ),
]

_NARROW = """
struct bfloat16 { uint16_t bits; };
DEV bfloat16 narrow(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  return bfloat16{uint16_t((u + 0x8000u) >> 16)};
}
"""

_NARROW_BODY = "const float v = x[i] * w[i % d] + y[i]; out[i] = narrow(v > 0 ? v : 0);"

_DRIFTED = [
    Candidate(
        "an answer of half the bytes",
        "scale_add",
        model(
            "scale_add",
            """
            out = torch.empty_like(x, dtype=torch.bfloat16)
            scale_add(x, self.weight, y, out, x.numel(), x.shape[1])
            return out
            """,
        ),
        cpp=loop("scale_add", SCALE_ADD.replace("float* out", "bfloat16* out"), _NARROW_BODY, top=_NARROW)["cpp"],
        cuda=loop(
            "scale_add",
            SCALE_ADD.replace("float* out", "__nv_bfloat16* out"),
            _NARROW_BODY.replace("narrow", "__float2bfloat16"),
            top="#include <cuda_bf16.h>",
        )["cuda"],
        row="K43",
    ),
    Candidate(
        "one dimension more, which comparison by broadcasting does not see",
        "scale_add",
        model(
            "scale_add",
            """
            out = torch.empty_like(x)
            scale_add(x, self.weight, y, out, x.numel(), x.shape[1])
            return out.expand(1, *out.shape)
            """,
        ),
        **loop("scale_add", SCALE_ADD, RIGHT),
        row="K43",
    ),
    Candidate(
        "columns first, whose strides the next layer would not expect",
        "scale_add",
        model(
            "scale_add",
            """
            out = x.new_empty(x.shape[1], x.shape[0])
            scale_add(x, self.weight, y, out, x.numel(), x.shape[1])
            return out.t()
            """,
        ),
        **loop("scale_add", SCALE_ADD, RIGHT.replace("out[i]", "out[i % d * (n / d) + i / d]")),
        row="K43",
    ),
    Candidate(
        "the output that nobody looks at is missing",
        "best",
        """
import torch
from torch import nn
from kernels import best

class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = x.new_empty(x.shape[0]), x.new_empty(x.shape[0], dtype=torch.int64)
        best(x, values, indices, x.shape[0], x.shape[1])
        return {"values": values, "indices": indices}
""",
        **loop(
            "best",
            "const float* x, float* values, int64_t* indices, int64_t n, int64_t d",
            """
    int64_t at = 0;
    for (int64_t j = 1; j < d; ++j) at = x[i * d + j] > x[i * d + at] ? j : at;
    values[i] = x[i * d + at];
    indices[i] = at;
""",
        ),
        row="K43",
    ),
]

CHEATS = [*_TRUNCATED, *_HARD_CODED, *_DRIFTED]
