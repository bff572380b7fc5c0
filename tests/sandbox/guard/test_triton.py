"""Triton kernels in a candidate's file: allowed and said, and nothing of the host hides in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.guard.triton_source import jitted_names
from sandbox.task import TaskSpec
from sandbox.verdict import GuardReport

Judge = Callable[..., GuardReport]

CANDIDATE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra import libdevice

LOG2E = tl.constexpr(1.4426950408889634)
WIDTH = 2 * 64
# head


@triton.jit
def act(v):
    return tl.where(v < 0, 0.0, libdevice.rsqrt(v * LOG2E)).to(tl.float32)


# above
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr = True):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        v = tl.load(x_ptr + start + offsets, mask=offsets[:, None] < n, other=-float("inf"))
        if EVEN:
            v += tl.inline_asm_elementwise("ex2", "=f,f", [v], dtype=tl.float32, is_pure=True, pack=1)
        # body
        tl.store(out_ptr + offsets, tl.math.exp2(act(v.to(x_ptr.dtype.element_ty))) * WIDTH)


class ModelNew(nn.Module):
    def __init__(self, features=64, eps=1e-5):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x, y=None):
        out = torch.empty_like(x)
        n = out.numel()
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]) * max(1, x.shape[0]),)
        kernel[grid](x, out, n, BLOCK=triton.next_power_of_2(n), num_warps=4)
        # forward
        return out
"""

TUNED = """@triton.autotune(
    configs=[triton.Config({"BLOCK": b * WIDTH}, num_warps=w) for b in (1, 2) for w in [4, 8]],
    key=["n"],
    restore_value=["out_ptr"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
"""

HONEST = {
    "a grid by a lambda, helpers, constants, assembly": ("", ""),
    "a grid by a tuple": ("# forward", "kernel[(triton.cdiv(n, 64), 1)](x, self.linear.weight, n, 64, EVEN=False)"),
    "a grid by a function": (
        "# forward",
        "def grid_of(meta):\n            return (triton.cdiv(n, meta['BLOCK']),)\n        kernel[grid_of](x, out, n, BLOCK=64)",
    ),
    "tuned, with heuristics": ("# above\n", TUNED),
    "options of jit": ("# above\n@triton.jit", "@triton.jit(noinline=True, do_not_specialize=['n'])"),
    "names imported one by one": ("# head", "from triton import cdiv, jit\nfrom triton.language import float16"),
}

DISHONEST = {
    "torch in a body": ("# body", "v = torch.relu(v)", "triton-code"),
    "torch's attribute in a body": ("# body", "v = torch.float32", "triton-code"),
    "an import in a body": ("# body", "import os", "triton-code"),
    "a function of the host in a body": ("# body", "n = helper(n)", "triton-code"),
    "a builtin of the file's own": ("# head\n", "def range(*a):\n    return torch.ones(3)\n", "triton-code"),
    "a parameter called": ("# body", "v = EVEN(v)", "triton-code"),
    "what a module of Triton's imports": ("# body", "tl.core.os.system('id')", "triton-code"),
    "inner parts in a body": ("# body", "v = v.__class__", "triton-code"),
    "a lambda in a body": ("# body", "(lambda: 0)()", "triton-code"),
    "a call of a call": ("# body", "tl.load(x_ptr)(v)", "triton-code"),
    "a global name": ("# body", "global LOG2E", "triton-code"),
    "a constant that is a function": ("LOG2E = tl.constexpr(1.4426950408889634)", "LOG2E = torch.relu", "triton-code"),
    "a constant set again": ("# head", "def put():\n    global WIDTH\n    WIDTH = torch", "triton-code"),
    "a function by a default": ("EVEN: tl.constexpr = True", "EVEN: tl.constexpr = torch.relu", "triton-code"),
    "an annotation that runs": ("EVEN: tl.constexpr = True", "EVEN: print(1) = True", "triton-code"),
    "an annotation that computes": ("EVEN: tl.constexpr = True", "EVEN: exec('x') or 1 = True", "triton-code"),
    "a result's annotation that runs": ("def act(v):", "def act(v) -> exec('x'):", "triton-code"),
    "a body run on the host": ("# forward", "return kernel.fn(x, x, 1, 1)", "triton-code"),
    "a body run by an alias": ("# forward", "k = kernel\n        return k.fn(x, x, 1, 1)", "triton-code"),
    "a body run by getattr": ("# forward", "return getattr(kernel, 'fn')(x, x, 1, 1)", "triton-code"),
    "a kernel called without a grid": ("# forward", "return act(x)", "triton-code"),
    "a hook": ("# forward", "kernel.add_pre_run_hook(print)", "triton-code"),
    "a launch kept": ("# forward", "self.run = kernel[(1,)]", "triton-code"),
    "a kernel's name set again": ("class ModelNew", "kernel = torch.relu\n\n\nclass ModelNew", "triton-code"),
    "a kernel's name by a loop": ("# forward", "for act in [x]:\n            pass", "triton-code"),
    "a kernel's name defined again": ("# head", "def kernel(x):\n    return x", "triton-code"),
    "a kernel's name imported": ("# head", "from kernels import kernel", "triton-code"),
    "Triton's name as a parameter": ("x, y=None", "x, tl=None", "triton-code"),
    "Triton's name set again": ("# head", "tl = torch", "triton-code"),
    "a triton of its own": ("# head", "from kernels import triton", "triton-code"),
    "a triton beside the file": ("import triton\n", "from . import triton\n", "import"),
    "ready-made kernels": ("# head", "import triton.ops", "import"),
    "ready-made kernels, by name": ("# head", "from triton import ops", "triton-code"),
    "ready-made kernels, on the way": ("# forward", "return triton.ops.matmul(x, x)", "triton-code"),
    "Triton's own clock": ("# head", "from triton.testing import do_bench", "import"),
    "the run time of Triton": ("# forward", "triton.runtime.driver.active", "triton-code"),
    "a name of torch's compiler": ("def act(v)", "def triton_act(v)", "triton-code"),
    "another decorator above": ("# above", "@torch.no_grad()", "triton-code"),
    "jit over a function of the host": ("# above\n@triton.jit", "@triton.jit\n@helper", "triton-code"),
    "jit as a function": ("# forward", "triton.jit(print)", "triton-code"),
    "a hook of jit": ("# above\n@triton.jit", "@triton.jit(launch_metadata=print)", "triton-code"),
    "a hook of autotune": ("# above", "@triton.autotune([triton.Config({})], [], pre_hook=print)", "triton-code"),
    "a hook of a configuration": (
        "# above",
        "@triton.autotune([triton.Config({}, pre_hook=print)], [])",
        "triton-code",
    ),
    "a heuristic for a tensor": ("# above", "@triton.heuristics({'x_ptr': lambda a: a['x_ptr'] * 2})", "triton-code"),
    "a heuristic that calls": ("# above", "@triton.heuristics({'EVEN': lambda a: a['x_ptr'].relu_()})", "triton-code"),
    "a heuristic by a builtin of the file's own": (
        "# above",
        "def int(t):\n    return t.relu_()\n@triton.heuristics({'EVEN': lambda a: int(a['x_ptr'])})",
        "triton-code",
    ),
    "a grid that computes": ("# forward", "kernel[lambda m: (int(x.sum()),)](x, out, n, BLOCK=1)", "torch-computation"),
    "a grid that uses tensors given": (
        "# forward",
        "kernel[lambda m: (m['x_ptr'].relu_(),)](x, out, n)",
        "triton-code",
    ),
    "a grid that lets tensors out": (
        "# forward",
        "s = []\n        kernel[lambda m: (s.append(m),)](x, x)",
        "triton-code",
    ),
    "a grid that keeps a name": ("# forward", "kernel[lambda m: ((t := m['BLOCK']),)](x, x)", "triton-code"),
    "a tensor as a grid": ("# forward", "kernel[x](x, out, n, BLOCK=1)", "triton-code"),
    "a module as an argument": ("# forward", "kernel[(1,)](x, out, n, BLOCK=torch)", "triton-code"),
    "a module of torch's as an argument": ("# forward", "kernel[(1,)](x, out, n, BLOCK=F)", "triton-code"),
    "an object as an argument": ("# forward", "kernel[(1,)](Own(), out, n, BLOCK=1)", "triton-code"),
}


def changed(old: str, new: str) -> str:
    assert CANDIDATE.count(old) >= 1 or not old
    own = "class Own:\n    pass\n\n\nclass ModelNew"
    return (CANDIDATE.replace(old, new, 1) if old else CANDIDATE).replace("class ModelNew", own)


@pytest.mark.parametrize("policy", ["own-kernels", "library-ok"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_get_one_label(name: str, policy: str, kernelbench: Judge) -> None:
    report = kernelbench(changed(*HONEST[name]), policy=policy)
    assert [(finding.rule, finding.severity) for finding in report.findings] == [("triton", "label")], report.findings
    assert report.findings[0].evidence.endswith("build without Triton: act, kernel")


@pytest.mark.parametrize("name", DISHONEST)
def test_what_hides_in_triton_code_is_found(name: str, kernelbench: Judge) -> None:
    old, new, rule = DISHONEST[name]
    report = kernelbench(changed(old, new))
    assert rule in {finding.rule for finding in report.findings if finding.severity == "reject"}, report.findings


def test_the_policy_lifts_no_rule_on_device_code(kernelbench: Judge) -> None:
    report = kernelbench(changed("# body", "v = torch.relu(v)"), policy="library-ok")
    assert [finding.rule for finding in report.findings if finding.severity == "reject"] == ["triton-code"]


def test_the_names_that_run_are_those_of_the_functions() -> None:
    here = Path("/nowhere")
    assert jitted_names(CANDIDATE.encode(), TaskSpec("kernelbench", here, "Model", "m", here, here)) == [
        "act",
        "kernel",
    ]
