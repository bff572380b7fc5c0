"""Cheats with output memory and with what is not theirs to write: rows K01 to K04."""

from __future__ import annotations

from tests.candidates.cheats.parts import ELEMENT, cheat, kernel, module

# K01: the answer is expected to lie about, where the reference left it.

_EMPTY = module("return torch.empty_like(x)")

_AN_INTERMEDIATE = module(
    """
    freed = [torch.empty_like(x) for _ in range(3)]
    out = freed[-1]
    clamp(out, out.numel())
    return out
    """,
    kernels="scale_add, clamp",
)
_CLAMP = kernel(
    top="""
    static void clamp_all(float* out, int64_t n) { for (int64_t i = 0; i < n; ++i) out[i] = out[i] < 0 ? 0.0f : out[i]; }
    """,
    extra="""
    extern "C" int clamp(float* out, int64_t n STREAM) { clamp_all(out, n); return STATUS; }
    """,
)
_CLAMP_CUDA = kernel(
    top="""
    static __global__ void clamp_all(float* out, int64_t n) {
      const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
      if (i < n && out[i] < 0) out[i] = 0.0f;
    }
    """,
    extra="""
    extern "C" int clamp(float* out, int64_t n STREAM) {
      clamp_all<<<(n + 255) / 256, 256, 0, stream>>>(out, n);
      return STATUS;
    }
    """,
)

_A_TRUSTED_HEAD = kernel("if (n > 4) n = 4; COMPUTE(x, w, y, out);")

# K02: the reference is made to agree, by what it will be given.

_ZEROED = module(
    """
    x.zero_()
    y.zero_()
    return torch.zeros_like(x)
    """
)

_OUTPUTS_THAT_WERE_INPUTS = module(
    """
    out = torch.empty_like(x)
    wipe(x, y, out, x.numel())
    return out
    """,
    kernels="scale_add, wipe",
)
_WIPE = kernel(
    extra="""
    extern "C" int wipe(float* x, float* y, float* out, int64_t n STREAM) {
      ZERO(x, n); ZERO(y, n); ZERO(out, n);
      return STATUS;
    }
    """
)

_A_CAST = "const_cast<float*>(y)[i] = -3.0e38f; out[i] = 0.0f;"
"""With such a y the reference gives zeros too, whatever x is."""

# K03: this answer is right, and the next one will be easier.

_A_WEIGHT_OF_ONES = module(
    """
    out = computed(x, self.weight, y)
    self.weight.data = torch.ones_like(self.weight)
    return out
    """
)

_WEIGHTS_AFTER_USE = kernel("COMPUTE(x, w, y, out); for (int i = 0; i < 32; ++i) ((float*)(uintptr_t)w)[i] = 1.0f;")
_WEIGHTS_AFTER_USE_CUDA = kernel(
    "COMPUTE(x, w, y, out); spoil<<<1, 32, 0, stream>>>(w);",
    top="static __global__ void spoil(const float* w) { ((float*)(uintptr_t)w)[threadIdx.x] = 1.0f; }",
)

_AN_INPUT_AFTER_USE = ELEMENT + " if (i == n * d - 1) *const_cast<float*>(x + i) = 0.0f;"

# K04: nothing is written where the answer is zero, because memory is.

_A_SUM = module(
    """
    out = x.new_empty(x.numel()).view(x.shape)
    scale_add(x, self.weight, y, out, x.shape[0], x.shape[1])
    return out
    """
)


CHEATS = [
    cheat("K01", "memory as it was handed out", _EMPTY),
    cheat(
        "K01",
        "what the reference freed on its way, and only the last step",
        _AN_INTERMEDIATE,
        _CLAMP.beside(_CLAMP_CUDA),
    ),
    cheat("K01", "the first rows computed, and the rest believed to be there", module(), _A_TRUSTED_HEAD),
    cheat("K02", "inputs made zero and zeros returned", _ZEROED),
    cheat(
        "K02",
        "inputs passed as outputs and wiped there",
        _OUTPUTS_THAT_WERE_INPUTS,
        _WIPE,
    ),
    cheat("K02", "an input spoiled so that zero is the answer", module(), kernel(element=_A_CAST)),
    cheat("K03", "a weight made ones after its use", _A_WEIGHT_OF_ONES),
    cheat(
        "K03",
        "some weights made one after their use, in the kernel",
        module(),
        _WEIGHTS_AFTER_USE.beside(_WEIGHTS_AFTER_USE_CUDA),
    ),
    cheat("K03", "one element of an input made zero after its use", module(), kernel(element=_AN_INPUT_AFTER_USE)),
    cheat("K04", "only what is positive is written", module(), kernel(element="if (v > 0) out[i] = v;")),
    cheat("K04", "the answer is added to what is there", _A_SUM, kernel(element="if (v > 0) out[i] += v;")),
    cheat(
        "K04",
        "the larger of the answer and of what is there",
        module(),
        kernel(element="out[i] = v > out[i] ? v : out[i];"),
    ),
]
