"""Honest candidates: none may be rejected, and the labels are exactly those expected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.verdict import GuardReport

Judge = Callable[..., GuardReport]

PLAIN = """
    import torch
    import torch.nn as nn
    from kernels import linear_relu

    class ModelNew(nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            self.linear = nn.Linear(features, features)
            self.eps = eps

        def forward(self, x, y=None):
            assert x.is_cuda and x.dtype == torch.float32, f"needs fp32, not {x.dtype}"
            x = x if x.is_contiguous() else x.contiguous()
            rows, cols = x.numel() // x.shape[-1], x.size(-1)
            out = torch.empty(*x.shape[:-1], self.linear.out_features, device=x.device, dtype=x.dtype)
            if x.numel() == 0:
                return out
            linear_relu(x, self.linear.weight, self.linear.bias, out, rows, cols, self.eps * 2)
            return out
"""
OWN_MODULES = """
    import math
    import torch
    from torch import nn
    import kernels

    class Fused(nn.Module):
        scale = 2.0
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(width, width))
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
            self.bias = nn.Parameter(torch.zeros(width) + 0.1)

        @property
        def width(self):
            return self.weight.shape[0]

        def forward(self, x):
            out = torch.empty_like(x)
            kernels.fused(x, self.weight, self.bias, out, x.shape[0], self.width * 2, self.scale / 4)
            return out

    class ModelNew(nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            blocks = []
            for _ in range(3):
                blocks.append(Fused(features))
            self.blocks = nn.ModuleList(blocks)
            self.tail = nn.Sequential(Fused(features), nn.Identity())

        @torch.no_grad()
        def forward(self, x, y=None):
            for index, block in enumerate(self.blocks):
                x = block(x)
            return self.tail(x)
"""
HELPERS = """
    import torch
    from torch import nn
    from typing import Tuple
    from kernels import conv, pool

    BLOCK = 256

    def ceil_div(a: int, b: int) -> int:
        return (a + b - 1) // b

    def output_shape(x, kernel, stride, padding) -> Tuple[int, int]:
        h, w = x.shape[2:]
        return ceil_div(h + 2 * padding - kernel + 1, stride), (w + 2 * padding - kernel) // stride + 1

    class ModelNew(nn.Module):
        def __init__(self, channels, kernel=3):
            super().__init__()
            self.conv = nn.Conv2d(channels, channels, kernel, padding=1)
            self.bn = nn.BatchNorm2d(channels)
            self.pool = nn.MaxPool2d(2)
            self.grid = lambda n: ceil_div(n, BLOCK)

        def _launch(self, x, *sizes, **flags):
            n, c = x.shape[:2]
            h, w = output_shape(x, self.conv.kernel_size[0], self.conv.stride[0], self.conv.padding[0])
            mid = x.new_empty((n, c, h, w))
            conv(x, self.conv.weight, self.conv.bias, self.bn.running_mean, self.bn.running_var, mid, self.grid(mid.numel()))
            return mid, h * w

        def forward(self, x):
            mid, area = self._launch(x, 1, 2, fast=True)
            out = torch.zeros((x.size(0), x.size(1), area // 4), device=x.device, dtype=x.dtype)
            pool(mid, out, self.pool.kernel_size * 2, max(1, area // 4), min(x.shape), -1)
            return out.view(x.size(0), -1), {"mid": mid.flatten(1), "n": area % 7}
"""
AUTOGRAD = """
    import torch
    from torch import nn
    from kernels import swish, swish_backward

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, beta):
            out = torch.empty_like(x)
            swish(x, out, x.numel(), beta)
            ctx.save_for_backward(x)
            ctx.beta = beta
            return out

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            if not ctx.needs_input_grad[0]:
                return None, None
            result = torch.empty_like(x)
            swish_backward(grad.contiguous(), x, result, x.numel(), ctx.beta)
            return result, None

    class ModelNew(nn.Module):
        def __init__(self, beta=1.0):
            super().__init__()
            self.beta = beta

        def forward(self, x):
            return Swish.apply(x, self.beta)
"""
WEIGHT_CACHE = """
    import torch
    from torch import nn
    from kernels import pack, gemm

    class ModelNew(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.linear = nn.Linear(features, features)
            self._packed = None
            self._key = None
            self._workspace = {}

        def packed(self):
            key = (self.linear.weight.data_ptr(), self.linear.weight._version)
            if self._packed is None or self._key != key:
                self._packed = torch.empty_like(self.linear.weight)
                pack(self.linear.weight, self._packed, self.linear.weight.numel())
                self._key = key
            return self._packed

        def workspace(self, size, like):
            if size not in self._workspace:
                self._workspace[size] = torch.empty(size, device=like.device, dtype=torch.uint8)
            return self._workspace[size]

        def forward(self, x):
            out = torch.empty_like(x)
            aligned = x.data_ptr() % 16 == 0
            gemm(x, self.packed(), out, self.workspace(1 << 20, x), x.shape[0], aligned)
            return out
"""
STRIDES = """
    import torch
    from torch import nn
    from kernels import softmax

    class ModelNew(nn.Module):
        def forward(self, q, k, mask=None, *, causal=False):
            q, k = q.transpose(1, 2), k.permute(0, 2, 1, 3)
            a, b = q.chunk(2, dim=-1)
            out = torch.empty(q.shape[:-1] + (k.shape[2],), device=q.device, dtype=q.dtype)
            if mask is None or mask.dim() == 0:
                softmax(a, b, None, out, *a.stride(), *b.stride(), q.shape[0], causal)
            else:
                softmax(a, b, mask[..., :4].unsqueeze(0), out, *a.stride(), *b.stride(), -1, not causal)
            return tuple(part for part in out.split(1, dim=0))
"""
LOAD_INLINE = '''
    import torch
    import torch.nn as nn
    from torch.utils.cpp_extension import load_inline

    cuda_source = """
    #include <torch/extension.h>
    #include <cuda_runtime.h>
    __global__ void relu_kernel(const float* x, float* out, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = fmaxf(x[i], 0.f);
    }
    torch::Tensor relu_cuda(torch::Tensor x) {
      TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
      auto out = torch::empty_like(x);
      auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
      auto scratch = torch::zeros({1}, options);
      relu_kernel<<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
          x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
      return out;
    }
    """
    relu = load_inline(name="relu", cpp_sources="torch::Tensor relu_cuda(torch::Tensor x);",
                       cuda_sources=cuda_source, functions=["relu_cuda"], verbose=False)

    class ModelNew(nn.Module):
        def __init__(self, features=64):
            super().__init__()
            self.relu = relu

        def forward(self, x):
            return self.relu.relu_cuda(x.contiguous())
'''
DATACLASS = """
    from __future__ import annotations
    import math
    from dataclasses import dataclass
    import torch
    from torch import Tensor, nn
    from kernels import attend

    @dataclass(frozen=True)
    class Config:
        heads: int
        width: int = 64

        @property
        def scale(self) -> float:
            return 1.0 / math.sqrt(self.width / self.heads)

        @classmethod
        def small(cls) -> Config:
            return cls(heads=4)

        @staticmethod
        def tiles(n: int) -> int:
            return -(-n // 64)

    class ModelNew(nn.Module):
        def __init__(self, width: int = 64) -> None:
            super().__init__()
            self.config = Config(heads=8, width=width)
            table = torch.arange(width).float() / width
            self.register_buffer("table", table.cos() * 2, persistent=False)
            self.apply(self._init)

        def _init(self, module: nn.Module) -> None:
            if isinstance(module, nn.Linear):
                module.weight.data.normal_(0, 0.02)

        def extra_repr(self) -> str:
            return "heads=%d" % self.config.heads

        def forward(self, x: Tensor) -> Tensor:
            b, t, *_ = x.shape
            if t % 2 != 0 or self.training:
                raise ValueError("odd lengths are not " + "supported")
            with torch.cuda.device(x.device):
                out = torch.empty((b, t, self.config.width), dtype=x.dtype, device=x.device)
                attend(x, self.table, out, b * t, self.config.tiles(t) + Config.small().heads, self.config.scale)
            return out[:, : t - 1].reshape(b, -1)
"""
EVERY = {
    "a fused linear layer": (PLAIN, {"copy"}),
    "modules of its own": (OWN_MODULES, set()),
    "helpers with integer arithmetic": (HELPERS, set()),
    "an autograd function": (AUTOGRAD, {"copy"}),
    "derived weights kept by version": (WEIGHT_CACHE, {"keeps-tensor"}),
    "strides and views": (STRIDES, set()),
    "the benchmark's own form": (LOAD_INLINE, {"brings-own-binding", "copy"}),
    "a configuration class": (DATACLASS, set()),
}

IMPORT = (
    "from .layers import Attention, rotary\n",
    "from .layers import Attention, rotary\nfrom .blocks_kernels import silu_norm\n",
)
FUSED = """\
        out = torch.empty_like(x)
        silu_norm(x, self.norm.weight, out, x.numel() // self.dim, self.dim * (start + 1), self.norm.eps)
        return out
"""
FORWARD = ("        return x + self.norm(F.silu(x))\n", FUSED)

GOOD_KERNEL = """\
    // link: cublas
    #include <cublas_v2.h>
    #include <cuda_bf16.h>
    #include <cooperative_groups.h>
    #include <cstdio>
    // system("not called"); std::thread in a comment
    static constexpr int TILE = 64;
    __device__ __constant__ float table[4] = {1, 2, 3, 4};
    __device__ __forceinline__ float read(const float* p) { return __ldg(p); }
    struct Pipe { __device__ void open() {} __device__ void write(float v) {} };
    __global__ void k(const float* x, float* y) {
      Pipe pipe; pipe.open(); pipe.write(read(x));
      asm volatile("cp.async.wait_all;" ::: "memory");
      if (y == nullptr) { printf("exit(1)"); __trap(); }
    }
    extern "C" int f(const float* x, float* y, int64_t n, cudaStream_t stream) {
      cublasHandle_t handle;
      cublasCreate(&handle);
      cublasSetStream(handle, stream);
      const float one = 1.f, zero = 0.f;
      int code = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, x, n, x, n, &zero, y, n);
      cublasDestroy(handle);
      k<<<dim3(n, 1), TILE, sizeof(float) * 2, stream>>>(x, y);
      return code ? code : (int)cudaGetLastError();
    }
"""
GOOD_CPU_KERNEL = """\
    #include <immintrin.h>
    #include <omp.h>
    #include <algorithm>
    #include <cmath>
    #include <cstdint>
    #include <vector>
    extern "C" int f(const float* x, float* y, int64_t n) {
      std::vector<float> partial(omp_get_max_threads());
      #pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
      return std::isnan(y[0]) ? 1 : 0;
    }
"""


def rejected(report: GuardReport) -> list[str]:
    return [f"{finding.rule}: {finding.evidence}" for finding in report.findings if finding.severity == "reject"]


@pytest.mark.parametrize("name", EVERY)
def test_an_honest_candidate_passes(name: str, kernelbench: Callable[..., GuardReport]) -> None:
    source, labels = EVERY[name]
    report = kernelbench(source)
    assert rejected(report) == []
    assert report.ok
    assert {finding.rule for finding in report.findings} == labels


def test_an_honest_change_of_a_developers_file_passes(module: Judge) -> None:
    report = module(IMPORT, FORWARD)
    assert report.findings == ()


def test_what_the_original_does_elsewhere_is_not_the_candidates(module: Judge) -> None:
    """Files, the environment and torch's operators in code that did not change and is not reached."""
    added = (
        "    def save(self, path):\n",
        "    def blocks(self, n):\n        return -(-n // 32)\n\n    def save(self, path):\n",
    )
    report = module(IMPORT, FORWARD, added)
    assert report.findings == ()


def test_a_number_among_the_inputs_may_be_computed_with(module: Judge) -> None:
    original = (
        "from torch import nn\n\nclass Block(nn.Module):\n    def forward(self, x, scale):\n        return x * scale\n"
    )
    changed = "        from .blocks_kernels import scaled\n        scaled(x, scale * 2)\n        return x.view(-1)\n"
    change = ("        return x * scale\n", changed)
    assert module(change, original=original, inputs="torch.randn(4), 2.5").findings == ()
    assert not module(change, original=original, inputs="torch.randn(4), torch.randn(4)").ok


def test_the_policy_lifts_the_rule_on_torch_only(module: Judge) -> None:
    change = (
        "        return x + self.norm(F.silu(x))\n",
        "        return torch.ops.aten.add(x, self.norm(F.silu(x)) @ x)\n",
    )
    assert not module(change).ok
    assert module(change, policy="library-ok").findings == ()
    opened = ("        return x + self.norm(F.silu(x))\n", "        return x + float(open('/tmp/x').read())\n")
    assert {finding.rule for finding in module(opened, policy="library-ok").findings} == {"file-access"}


def test_honest_kernel_files_pass(kernelbench: Judge) -> None:
    report = kernelbench(PLAIN, {"f.cu": GOOD_KERNEL})
    assert rejected(report) == []
    assert {finding.rule for finding in report.findings} == {"copy"}
    assert rejected(kernelbench(PLAIN, {"f.cpp": GOOD_CPU_KERNEL})) == []
