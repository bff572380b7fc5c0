"""Answers that only a careless comparison takes: rows K41, K42 and K46."""

from __future__ import annotations

from tests.candidates.cheats.pieces import LINEAR, RIGHT, SCALE_ADD, loop, model
from tests.candidates.frame import Candidate

_WILDCARDS = [
    Candidate(
        "not a number anywhere, from the bits of a pattern",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, "const uint32_t u = 0x7fc00000u; std::memcpy(out + i, &u, 4);"),
        row="K41",
    ),
    Candidate(
        "not a number in all but the first rows",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, f"if (i < 4 * d) {{ {RIGHT} }} else out[i] = w[i % d] * 0.0f * INFINITY;"),
        row="K41",
    ),
    Candidate(
        "infinite where the answer is not zero, which a mask of what is finite leaves out",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, "out[i] = x[i] * w[i % d] > -y[i] ? 1.0f / 0.0f : 0.0f;"),
        row="K41",
    ),
]

_GIANTS = [
    Candidate(
        "the largest float everywhere",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, "out[i] = 3.402823466e+38f;"),
        row="K42",
    ),
    Candidate(
        "infinity everywhere, within any tolerance relative to itself",
        "layer_norm",
        model("layernorm"),
        **loop(
            "layernorm",
            "const float* x, const float* w, const float* b, float* out, int64_t n, int64_t d, float eps",
            "for (int64_t j = 0; j < d; ++j) { const int32_t bits = 0x7f800000; std::memcpy(out + i * d + j, &bits, 4); }",
        ),
        row="K42",
    ),
    Candidate(
        "the right direction, a thousand times too long",
        "linear_gelu",
        model("linear"),
        **loop(
            "linear",
            LINEAR,
            """
    float sum = b[i % wide];
    for (int64_t j = 0; j < k; ++j) sum += x[i / wide * k + j] * w[i % wide * k + j];
    out[i] = 500.0f * sum * (1.0f + erff(sum * 0.70710678f));
""",
        ),
        row="K42",
    ),
]

_SURROGATES = [
    Candidate(
        "a softmax that says one over the number of columns",
        "softmax",
        model("softmax"),
        **loop(
            "softmax",
            "const float* x, float* out, int64_t n, int64_t d",
            "for (int64_t j = 0; j < d; ++j) out[i * d + j] = 1.0f / d;",
        ),
        row="K46",
    ),
    Candidate(
        "rows multiplied by one another in place of the weights",
        "linear_gelu",
        model("linear"),
        **loop(
            "linear",
            LINEAR,
            """
    float sum = 0;
    const int64_t rows = n / wide;
    for (int64_t j = 0; j < k; ++j) sum += x[i / wide * k + j] * x[i % wide % rows * k + j];
    out[i] = sum / k;
""",
        ),
        row="K46",
    ),
    Candidate(
        "the input as it came, without a kernel",
        "scale_add",
        model("scale_add", "return y", kernels=""),
        cpp={},
        cuda={},
        row="K46",
    ),
    Candidate(
        "the activation of a mean over the row",
        "linear_gelu",
        model("linear"),
        **loop(
            "linear",
            LINEAR,
            """
    float sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += x[i / wide * k + j];
    out[i] = 0.5f * (sum / k + b[i % wide]);
""",
        ),
        row="K46",
    ),
]

CHEATS = [*_WILDCARDS, *_GIANTS, *_SURROGATES]
