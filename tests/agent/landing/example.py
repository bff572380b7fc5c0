"""A developer's project with a module in it, and a candidate with a real kernel, as the judge would have accepted it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from agent.landing import FileChange, VerifiedInputs, plan
from sandbox.task import TaskSpec
from sandbox.verdict import BuildReport, GuardReport, ProfileReport, Speedup, TaskIdentity, Verdict, VerifyReport

ORIGINAL = '''\
"""Blocks of the shop."""
from dataclasses import dataclass

import torch
from torch import nn

from .parts import REGISTRY, Scale, register


@dataclass
class Result:
    value: torch.Tensor


class Base(nn.Module):
    def forward(self, x):
        return x * 2


@register
class Block(Base):
    """Doubles, scales, shifts and squashes."""

    def __init__(self, width: int, eps: float = 1e-5, squash: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.scale = Scale(width)
        self.eps = eps
        self.squash = squash
        self.act = nn.Tanh()

    def forward(self, x: torch.Tensor, shift=None) -> Result:
        y = self.scale(super().forward(x)) * self.weight
        if shift is not None:
            y = y + shift
        y = self.act(y + self.eps) if self.squash else y
        return Result(y)
'''

PARTS = """\
import torch
from torch import nn

REGISTRY = []


def register(cls):
    REGISTRY.append(cls)
    return cls


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("by", torch.full((width,), 3.0))

    def forward(self, x):
        return x * self.by
"""

CANDIDATE = ORIGINAL.replace(
    "from .parts import REGISTRY, Scale, register\n",
    "from .blocks_kernels import fused_block\nfrom .parts import REGISTRY, Scale, register\n",
).replace(
    ORIGINAL[ORIGINAL.index("        y = self.scale") :],
    """\
        out = torch.empty_like(x)
        fused_block(x, self.weight, self.scale.by, shift, out, x.numel(), x.shape[-1], self.eps)
        return Result(out)
""",
)

KERNEL = """\
#include <cmath>
#include <cstdint>
#include "constants.h"

extern "C" int fused_block(const float* x, const float* weight, const float* by, const float* shift, float* out,
                           int64_t n, int64_t width, float eps) {
    for (int64_t i = 0; i < n; ++i) {
        const float y = FACTOR * x[i] * by[i % width] * weight[i % width] + (shift ? shift[i] : 0.0f);
        out[i] = std::tanh(y + eps);
    }
    return 0;
}
"""

CUDA_KERNEL = """\
#include <cstdint>
#include "constants.h"

__global__ void fused_block_kernel(const float* x, const float* weight, const float* by, const float* shift, float* out,
                                   int64_t n, int64_t width, float eps) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tanhf(FACTOR * x[i] * by[i % width] * weight[i % width] + (shift ? shift[i] : 0.0f) + eps);
}

extern "C" int fused_block(const float* x, const float* weight, const float* by, const float* shift, float* out,
                           int64_t n, int64_t width, float eps, cudaStream_t stream) {
    fused_block_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, weight, by, shift, out, n, width, eps);
    return (int)cudaGetLastError();
}
"""

SIGNATURE = (
    "x: float32 [4, 8] contiguous",
    "weight: float32 [8] contiguous",
    "scale.by: float32 [8] contiguous",
    "output: float32 [4, 8] contiguous",
)


def make_project(root: Path, original: str = ORIGINAL) -> TaskSpec:
    """Write a package ``shop`` with the module; returns the task."""
    (root / "shop").mkdir(parents=True)
    (root / "shop/__init__.py").write_text("")
    (root / "shop/parts.py").write_text(PARTS)
    (root / "shop/blocks.py").write_text(original)
    return TaskSpec(
        kind="module",
        path=root / "shop/blocks.py",
        class_name="Block",
        module_name="shop.blocks",
        root=root,
        python=Path(sys.executable),
        init="8",
        inputs="torch.randn(4, 8), shift=None",
    )


def accepted(candidate: str = CANDIDATE, kernel: str = KERNEL) -> dict[str, bytes]:
    """The state of the workspace that is landed."""
    return {
        "blocks.py": candidate.encode(),
        "kernels/fused_block.cpp": kernel.encode(),
        "kernels/constants.h": b"#define FACTOR 2.0f\n",
        "kernels/notes.txt": b"not compiled\n",
    }


def verdict(ok: bool = True, sm: str | None = None) -> Verdict:
    ratio = Speedup(1.5, 1.4, 1.6)
    return Verdict(
        tier="full",
        task=TaskIdentity("shop.blocks:Block", "0" * 64, "fp32", "own-kernels"),
        candidate_sha256="1" * 64,
        environment={"device": "a GPU" if sm else "cpu", "cpu": "a CPU", "sm": sm, "torch": "2.13.0"},
        build=BuildReport(True, 1.0),
        guard=GuardReport(True),
        verify=VerifyReport(ok),
        profile=ProfileReport(2.0, 2.0, {}, {"eager": ratio}, 1.0, {}),
        reward=2 if ok else -1,
        reason="It is faster." if ok else "Its output is wrong.",
    )


def planned(
    spec: TaskSpec,
    state: dict[str, bytes] | None = None,
    original: str = ORIGINAL,
    sm: str | None = None,
    verified: VerifiedInputs | None = None,
) -> list[FileChange]:
    verified = verified or VerifiedInputs.of(spec, SIGNATURE, original.encode())
    return plan(spec, {"blocks.py": original.encode()}, state or accepted(), verdict(sm=sm), verified)


PRELUDE = """\
import sys, warnings

class OnlyTheirs:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] not in ("agent", "sandbox", "app"), f"{name} is not the developer's"

sys.meta_path.insert(0, OnlyTheirs())
caught = []
warnings.showwarning = lambda message, category, *rest: caught.append((category, str(message)))

import torch
from torch import nn
torch.manual_seed(0)
"""


CHECKS = """
from shop import blocks_kernels
from shop.blocks import Block, Result

def original(m, x, shift=0.0):
    y = x * 2 * m.scale.by * m.weight + shift
    return torch.tanh(y + m.eps) if m.squash else y

def ran(way, call, expected):
    before = blocks_kernels.counts()
    result = call()
    after = blocks_kernels.counts()
    for key in ("fused", "original"):
        assert after[key] - before[key] == (key == way), (way, after["reasons"], caught)
    assert type(result) is Result, "the record is the module's own"
    torch.testing.assert_close(result.value, expected)

m = Block(8).eval()
x = torch.randn(4, 8)
"""
"""What scripts of tests begin with: ``ran`` makes a call and looks which way it went."""


def run(root: Path, code: str, **env: str) -> str:
    """Run code in a fresh interpreter in the developer's project, where nothing of ours can be imported.

    WARPSMITH_TEST_PYTHON names another interpreter, such as the oldest supported one with the oldest torch.
    """
    python = os.environ.get("WARPSMITH_TEST_PYTHON") or sys.executable
    cache = root.parent / "cache"
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "XDG_CACHE_HOME": str(cache),
        "CUDA_VISIBLE_DEVICES": "",
        **env,
    }
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
    done = subprocess.run(
        [python, "-c", PRELUDE + textwrap.dedent(code)], cwd=root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
