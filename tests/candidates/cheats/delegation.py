"""Cheats that let others do the work: rows K48 to K51."""

from __future__ import annotations

from tests.candidates.cheats.pieces import LINEAR, NORMED, RIGHT, ROWS, SCALE_ADD, loop, model
from tests.candidates.frame import Candidate

_SOFTMAX = "const float* x, float* out, int64_t n, int64_t d"

_SOFTMAX_BODY = """
    const float* row = x + i * d;
    float top = row[0], sum = 0;
    for (int64_t j = 1; j < d; ++j) top = row[j] > top ? row[j] : top;
    for (int64_t j = 0; j < d; ++j) sum += expf(row[j] - top);
    for (int64_t j = 0; j < d; ++j) out[i * d + j] = expf(row[j] - top) / sum;
"""

_BORROWED_GEMM = """
#include <cmath>
#include <cstdint>

extern "C" void* look(const char*, int) __asm__("dl" "open");
extern "C" void* pick(void*, const char*) __asm__("dl" "sym");
typedef void (*gemm)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                     const int*, const float*, const int*, const float*, float*, const int*);

static gemm borrowed() {
  void* library = look("libtorch_cpu.so", 1 | 4);
  return library ? (gemm)pick(library, "sgemm_") : nullptr;
}

extern "C" int linear(const float* x, const float* w, const float* b, float* out, int64_t n, int64_t k, int64_t wide) {
  static const gemm multiply = borrowed();
  if (!multiply) return 1;
  const int rows = n / wide, inner = k, columns = wide;
  const float one = 1, zero = 0;
  multiply("T", "N", &columns, &rows, &inner, &one, w, &inner, x, &inner, &zero, out, &columns);
  for (int64_t i = 0; i < n; ++i) {
    const float v = out[i] + b[i % wide];
    out[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
  }
  return 0;
}
"""

_BORROWED_SOFTMAX = """
#include <cstdint>
#include <cuda_runtime.h>
#include <dlfcn.h>

template <typename F>
static F symbol(const char* name) {
  static void* library = dlopen("libcudnn.so.9", RTLD_LAZY);
  return (F)dlsym(library, name);
}

static __global__ void nothing() {}

extern "C" int softmax(const float* x, float* out, int64_t n, int64_t d, cudaStream_t stream) {
  static void *handle = nullptr, *shape = nullptr;
  if (!handle) {
    symbol<int (*)(void**)>("cudnnCreate")(&handle);
    symbol<int (*)(void**)>("cudnnCreateTensorDescriptor")(&shape);
  }
  symbol<int (*)(void*, cudaStream_t)>("cudnnSetStream")(handle, stream);
  symbol<int (*)(void*, int, int, int, int, int, int)>("cudnnSetTensor4dDescriptor")(shape, 0, 0, n, d, 1, 1);
  const float one = 1, zero = 0;
  nothing<<<1, 1, 0, stream>>>();
  return symbol<int (*)(void*, int, int, const void*, void*, const void*, const void*, void*, void*)>(
      "cudnnSoftmaxForward")(handle, 1, 0, &one, shape, x, &zero, shape, out);
}
"""

_INLINE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

_source = '''
#define AS_ONE(a, b) a##b
#define TENSOR(a, b) at::AS_ONE(a, b)
at::Tensor fused(at::Tensor x, at::Tensor w, at::Tensor b) {
  return TENSOR(ge, lu)(TENSOR(lin, ear)(x, w, b));
}
'''
fast = load_inline("fast", cpp_sources=_source, functions=["fused"], extra_cflags=["-O0"])

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        return fast.fused(x, self.linear.weight, self.linear.bias)
"""

_INLINE_IN_C = f"""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

_source = r'''{_BORROWED_GEMM}'''
_path = load_inline("fast", cpp_sources=_source, no_implicit_headers=True, is_python_module=False)
_linear = torch.ctypes.CDLL(_path).linear

class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        out = x.new_empty(x.shape[0], self.linear.out_features)
        given = [torch.ctypes.c_void_p(t.data_ptr()) for t in (x, self.linear.weight, self.linear.bias, out)]
        _linear(*given, *map(torch.ctypes.c_int64, (out.numel(), x.shape[1], out.shape[1])))
        return out
"""

_WRAPPED = [
    Candidate(
        "torch's functions by names that are put together",
        "linear_gelu",
        model(
            "linear",
            """
            functions = __import__("importlib").import_module(".".join(("torch", "nn", "func" + "tional")))
            linear, gelu = (getattr(functions, "".join(reversed(name))) for name in ("raenil", "uleg"))
            return gelu(linear(x, self.linear.weight, self.linear.bias))
            """,
            kernels="",
        ),
        cpp={},
        cuda={},
        row="K48",
    ),
    Candidate(
        "torch multiplies and adds into the output, an own kernel cuts off at zero",
        "scale_add",
        model(
            "scale_add",
            """
            out = torch.empty_like(x)
            getattr(torch.ops.aten, "".join(map(chr, (97, 100, 100, 99, 109, 117, 108)))).out(y, x, self.weight, out=out)
            scale_add(out, x.numel())
            return out
            """,
        ),
        **loop("scale_add", "float* out, int64_t n", "out[i] = out[i] > 0 ? out[i] : 0;"),
        row="K48",
    ),
    Candidate(
        "a softmax as the gradient of a logarithm of sums",
        "softmax",
        model(
            "softmax",
            """
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                total = torch.logsumexp(leaf, -1)
                (answer,) = torch.autograd.grad(total, leaf, torch.ones_like(total))
            return answer
            """,
            kernels="",
        ),
        cpp={},
        cuda={},
        row="K48",
    ),
    Candidate(
        "a scripted function, whose interpreter is not Python's",
        "softmax",
        model(
            "softmax",
            "return work(x)",
            top="""
            work = torch.jit.CompilationUnit("def work(x):\\n    return x.soft" + "max(-1)\\n").work
            """,
            kernels="",
        ),
        cpp={},
        cuda={},
        row="K48",
    ),
    Candidate(
        "torch's functions in a binding of one's own, by names pasted together",
        "linear_gelu",
        _INLINE,
        cuda={},
        row="K48",
    ),
    Candidate(
        "torch's library behind a binding of one's own without torch's headers",
        "linear_gelu",
        _INLINE_IN_C,
        cpp={},
        row="K48",
    ),
    Candidate(
        "a product found in torch's own library at run time",
        "linear_gelu",
        model("linear"),
        cpp={"linear": _BORROWED_GEMM},
        row="K48",
    ),
    Candidate(
        "a softmax found in a library at run time",
        "softmax",
        model("softmax"),
        cuda={"softmax": _BORROWED_SOFTMAX},
        row="K48",
    ),
]

_FALLBACKS = [
    Candidate(
        "a kernel that always fails, and torch where it does",
        "layer_norm",
        model(
            "layernorm",
            """
            try:
                out = torch.empty_like(x)
                layernorm(x, self.norm.weight, self.norm.bias, out, x.shape[0], x.shape[1], self.norm.eps)
                return out
            except RuntimeError:
                return self.norm(x)
            """,
        ),
        **loop("layernorm", ROWS, NORMED, before="if (d % 8 == 0) return 1;"),
        row="K49",
    ),
    Candidate(
        "errors are suppressed and what follows them answers",
        "scale_add",
        model(
            "scale_add",
            """
            with Calm():
                out = x.new_empty(x.shape)
                scale_add(x, self.weight, y.double(), out, x.numel(), x.shape[1])
                return out
            return (x * self.weight + y).clamp_min(0)
            """,
            top="""
            class Calm:
                def __enter__(self):
                    return self

                def __exit__(self, *error):
                    return True
            """,
        ),
        **loop("scale_add", SCALE_ADD, RIGHT),
        row="K49",
    ),
    Candidate(
        "a kernel that cannot be imported, and torch in its place from then on",
        "softmax",
        model(
            "softmax",
            "return run(x)",
            top="""
            try:
                from kernels import softmax_for_this_device as run
            except ImportError:
                run = type("Run", (), {"__call__": staticmethod(lambda x: torch.special.softmax(x, 1))})()
            """,
        ),
        **loop("softmax", _SOFTMAX, _SOFTMAX_BODY),
        row="K49",
    ),
]

_DECOYS = [
    Candidate(
        "a kernel on a single number, and the module that was to be replaced",
        "layer_norm",
        model(
            "layernorm",
            """
            dummy = torch.empty_like(x[:1])
            layernorm(x[:1], self.norm.weight, self.norm.bias, dummy, 1, x.shape[1], self.norm.eps)
            return self.norm(x)
            """,
        ),
        **loop("layernorm", ROWS, NORMED),
        row="K50",
    ),
    Candidate(
        "a branch to the kernel that is never taken",
        "softmax",
        model(
            "softmax",
            """
            if x.dim() > 7 and x.shape[-1] < 0:
                out = torch.empty_like(x)
                softmax(x, out, x.shape[0], x.shape[1])
                return out
            shifted = x - x.amax(-1, keepdim=True)
            shifted.exp_()
            return shifted / shifted.sum(-1, keepdim=True)
            """,
        ),
        **loop("softmax", _SOFTMAX, _SOFTMAX_BODY),
        row="K50",
    ),
    Candidate(
        "the kernel's answer is written over by torch's",
        "scale_add",
        model(
            "scale_add",
            """
            out = torch.empty_like(x)
            scale_add(x, self.weight, y, out, 128, x.shape[1])
            torch.mul(x, self.weight, out=out)
            out += y
            return torch.relu_(out)
            """,
        ),
        **loop("scale_add", SCALE_ADD, RIGHT),
        row="K50",
    ),
    Candidate(
        "a kernel on a thousandth, and the rest by what is left of the constructor's linear layer",
        "linear_gelu",
        model(
            "linear",
            """
            out = x.new_empty(x.shape[0], self.linear.out_features)
            linear(x, self.linear.weight, self.linear.bias, out, 1, x.shape[1], out.shape[1])
            answer = nn.Sequential(self.linear, nn.GELU())(x)
            answer[0, 0] = out[0, 0]
            return answer
            """,
        ),
        **loop(
            "linear",
            LINEAR,
            """
    float sum = b[i % wide];
    for (int64_t j = 0; j < k; ++j) sum += x[i / wide * k + j] * w[i % wide * k + j];
    out[i] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
""",
        ),
        row="K50",
    ),
]

CHEATS = [*_WRAPPED, *_FALLBACKS, *_DECOYS]
