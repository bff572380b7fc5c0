"""Dishonest candidates: each must be rejected, by the rule that names what it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.guard import check_source
from sandbox.task import TaskSpec
from sandbox.verdict import GuardReport

Judge = Callable[..., GuardReport]

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from kernels import fused

"""
CLASS = """\
class ModelNew(nn.Module):
    def __init__(self, features=64, eps=1e-5):
        super().__init__()
        self.linear = nn.Linear(features, features)
{init}
    def forward(self, x, y=None):
        out = torch.empty_like(x)
        fused(x, self.linear.weight, out, x.numel())
{forward}
        return out
"""

FORWARD = {
    "an operator of torch": ("out = torch.matmul(x, self.linear.weight)", "torch-computation"),
    "an operator of torch.nn.functional": ("return F.relu(out)", "torch-computation"),
    "arithmetic": ("return out + x", "torch-computation"),
    "a matrix product": ("out = x @ self.linear.weight.t()", "torch-computation"),
    "arithmetic in place": ("out *= 2", "torch-computation"),
    "a sign": ("return -out", "torch-computation"),
    "a comparison": ("return out > 0", "torch-computation"),
    "a method of the tensor": ("return out.relu()", "torch-computation"),
    "a method by its special name": ("return out.__add__(x)", "torch-computation"),
    "a method of the class": ("return torch.Tensor.add(out, x)", "torch-computation"),
    "a cast": ("return out.half()", "torch-computation"),
    "a module of torch": ("return self.linear(x)", "torch-computation"),
    "a module's forward": ("return self.linear.forward(x)", "torch-computation"),
    "a module's call by hand": ("return nn.Module.__call__(self.linear, x)", "torch-computation"),
    "writing into a slice": ("out[:, :4] = x[:, 4:8]", "torch-computation"),
    "indexing by a tensor": ("return out[x.long()]", "torch-computation"),
    "indexing by a list": ("return out[[1, 0]]", "torch-computation"),
    "concatenation": ("return torch.cat([out, x])", "torch-computation"),
    "a constant tensor": ("return torch.tensor([1.0, 2.0])", "torch-computation"),
    "numbers on the host": ("return torch.full_like(x, sum(x.tolist()))", "torch-computation"),
    "a sum of a list": ("return sum([out, x])", "torch-computation"),
    "a tensor as a number": ("fused(x, x, out, int(x[0, 0]))", "torch-computation"),
    "a container on the way": ("box = {'a': x}\n        return box['a'] * 2", "torch-computation"),
    "a tuple on the way": ("pair = (1, x)\n        return pair[1] * 2", "torch-computation"),
    "an attribute on the way": ("self.kept = x\n        return self.kept * 2", "torch-computation"),
    "a list that is added to": (
        "parts = []\n        parts.append(x)\n        return parts[0].exp()",
        "torch-computation",
    ),
    "a loop": ("for part in x.unbind(0):\n            out = part.exp()", "torch-computation"),
    "a comprehension": ("return [part.exp() for part in x]", "torch-computation"),
    "a walrus": ("return (z := x) * 2", "torch-computation"),
    "a condition that looks never true": ("if x.dim() == 99:\n            return F.gelu(x)", "torch-computation"),
    "an alias": ("f = torch.relu\n        return f(out)", "torch-computation"),
    "an alias of a method": ("f = out.relu\n        return f()", "torch-computation"),
    "a dictionary of functions": ("return {'a': torch.relu}['a'](out)", "torch-computation"),
    "a lambda": ("f = lambda t: t * 2\n        return f(out)", "torch-computation"),
    "map": ("return list(map(torch.relu, [out]))", "torch-computation"),
    "getattr with the name written": ("return getattr(torch, 'relu')(out)", "torch-computation"),
    "getattr with the name computed": ("return getattr(torch, 're' + 'lu')(out)", "computed-attribute"),
    "an unknown function": ("return mystery(out)", "unknown-call"),
    "a method it inherits from nowhere": ("return self.mystery(out)", "unknown-call"),
    "an operator by its registry": ("return torch.ops.aten.relu(out)", "registered-operator"),
    "torch.compile": ("return torch.compile(lambda t: t)(out)", "compile"),
    "autocast": ("with torch.autocast('cuda'):\n            pass", "autocast"),
    "another current stream": ("torch.cuda.set_stream(torch.cuda.Stream())", "stream"),
    "an error suppressed": (
        "import contextlib\n        with contextlib.suppress(RuntimeError):\n            fused(x, x, out, 1)",
        "swallowed-error",
    ),
    "TF32 switched on": ("torch.backends.cuda.matmul.allow_tf32 = True", "global-state"),
    "another precision": ("torch.set_float32_matmul_precision('high')", "global-state"),
    "an error swallowed": (
        "try:\n            fused(x, x, out, 1)\n        except RuntimeError:\n            out = x",
        "swallowed-error",
    ),
    "a cache by address": (
        "if x.data_ptr() in self.kept:\n            return self.kept[x.data_ptr()]\n        self.kept[x.data_ptr()] = out",
        "result-cache",
    ),
    "a cache by id": (
        "key = (id(x), x.shape)\n        if self.kept.get(key) is not None:\n            return self.kept[key]",
        "result-cache",
    ),
    "the last input recognised": ("if self.last == x.data_ptr():\n            return self.kept", "result-cache"),
    "a count of calls": ("self.calls += 1\n        if self.calls > 10:\n            return self.kept", "counts-calls"),
    "opening a file": ("open('/tmp/answer').read()", "file-access"),
    "loading a file": ("return torch.load('answer.pt')", "file-access"),
    "exec": ("exec('out = x')", "code-from-text"),
    "eval": ("return eval('x')", "code-from-text"),
    "globals": ("return globals()['answer']", "introspection"),
    "the frame of the caller": ("return (lambda: 0).__globals__['answer']", "introspection"),
    "subclasses": ("object.__subclasses__()", "introspection"),
    "leaving early": ("raise SystemExit(0)", "process-exit"),
    "a subclass of Tensor": ("return out.as_subclass(Lazy)", "tensor-subclass"),
    "a hook": ("self.register_forward_hook(print)", "hook"),
    "an import on the way": ("import os\n        os._exit(0)", "import"),
    "what the import gives": ("import sys\n        sys.modules['__main__'].clone = None", "forbidden-module"),
    "the inner parts of torch": ("return torch._C._nn.gelu(out)", "torch-internals"),
}

INIT = {
    "a function of torch kept": ("        self.f = torch.relu\n", "return self.f(out)", "torch-computation"),
    "a lambda kept": ("        self.f = lambda t: t.relu()\n", "return self.f(out)", "torch-computation"),
    "a partial kept": (
        "        import functools\n        self.f = functools.partial(torch.add, alpha=2)\n",
        "return self.f(out, x)",
        "torch-computation",
    ),
    "a list of modules": (
        "        self.all = nn.ModuleList([nn.ReLU()])\n",
        "for m in self.all:\n            out = m(out)",
        "torch-computation",
    ),
    "a sequence of modules": (
        "        self.all = nn.Sequential(nn.ReLU())\n",
        "return self.all(out)",
        "torch-computation",
    ),
    "a module by setattr": ("        setattr(self, 'act', nn.ReLU())\n", "return self.act(out)", "torch-computation"),
    "a module by add_module": (
        "        self.add_module('act', nn.ReLU())\n",
        "return self.act(out)",
        "torch-computation",
    ),
    "forward replaced": ("        self.forward = torch.relu\n", "", "torch-computation"),
    "a parameter multiplied": (
        "        self.w = nn.Parameter(torch.ones(4))\n",
        "return self.w * 2",
        "torch-computation",
    ),
    "a buffer multiplied": (
        "        self.register_buffer('w', torch.ones(4))\n",
        "return self.w * 2",
        "torch-computation",
    ),
    "a compiled function": ("        self.f = torch.compile(self.linear)\n", "return self.f(out)", "compile"),
}

FILE = {
    "a helper": ("def helper(t):\n    return t.relu()\n", "return helper(out)", "torch-computation"),
    "a helper's helper": (
        "def a(t):\n    return b(t)\ndef b(*ts):\n    return ts[0].exp()\n",
        "return a(out)",
        "torch-computation",
    ),
    "a keyword argument": ("def helper(*, t):\n    return t + 1\n", "return helper(t=out)", "torch-computation"),
    "a false annotation": ("def helper(t: int) -> int:\n    return t * t\n", "return helper(out)", "torch-computation"),
    "a default argument": (
        "def helper(t, f=torch.relu):\n    return f(t)\n",
        "return helper(out)",
        "torch-computation",
    ),
    "a generator": ("def helper(t):\n    yield t.relu()\n", "return next(helper(out))", "torch-computation"),
    "a closure": (
        "def make():\n    def inner(t):\n        return t.relu()\n    return inner\n",
        "return make()(out)",
        "torch-computation",
    ),
    "another module": (
        "class Act(nn.Module):\n    def forward(self, t):\n        return t.relu()\nact = Act()\n",
        "return act(out)",
        "torch-computation",
    ),
    "a class method": (
        "class Ops:\n    @classmethod\n    def run(cls, t):\n        return t.relu()\n",
        "return Ops.run(out)",
        "torch-computation",
    ),
    "an autograd function": (
        "class Act(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n        return t.relu()\n",
        "return Act.apply(out)",
        "torch-computation",
    ),
    "only its backward": (
        "class Act(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, g):\n        return g * 2\n",
        "return Act.apply(out)",
        "torch-computation",
    ),
    "a name imported from torch": ("from torch import relu as view\n", "return view(out)", "torch-computation"),
    "torch under another name": ("backend = torch.nn.functional\n", "return backend.relu(out)", "torch-computation"),
    "a library": ("import numpy as np\n", "", "import"),
    "another compiler": ("import numba\n", "", "import"),
    "starting programs": ("import subprocess\n", "", "import"),
    "foreign functions": ("from ctypes import CDLL\n", "", "import"),
    "a star": ("from torch import *\n", "", "import"),
    "the judge's files": ("import warpsmith_harness.compare\n", "", "import"),
    "an import computed": ("m = __import__('o' + 's')\n", "", "import"),
    "torch's clock replaced": ("torch.cuda.synchronize = lambda: None\n", "", "patch"),
    "torch's comparison replaced": ("setattr(torch, 'allclose', lambda *a: True)\n", "", "patch"),
    "a tensor's method replaced": ("torch.Tensor.__eq__ = lambda a, b: True\n", "", "patch"),
    "its own class replaced": ("class Other(nn.Module):\n    pass\nOther.forward = torch.relu\n", "", "patch"),
    "kernels that may be missing": (
        "try:\n    from kernels import other\nexcept ImportError:\n    other = None\n",
        "",
        "swallowed-error",
    ),
    "a lazy tensor": ("class Lazy(torch.Tensor):\n    pass\n", "", "tensor-subclass"),
    "an interceptor": ("class A:\n    def __torch_function__(self, *a):\n        pass\n", "", "tensor-subclass"),
    "code that runs by itself": ("class A:\n    def __del__(self):\n        pass\n", "", "magic-method"),
    "a metaclass": ("class A(metaclass=type):\n    pass\n", "", "magic-method"),
    "a decorated helper": (
        "def deco(f):\n    return torch.relu\n@deco\ndef helper(t):\n    return t\n",
        "return helper(out)",
        "decorator",
    ),
    "results kept by a decorator": (
        "import functools\n@functools.lru_cache\ndef helper(t):\n    return t\n",
        "return helper(out)",
        "result-cache",
    ),
}

TRICKS = {
    "a module reached through torch": ("", "torch.os.system('id')", "forbidden-module"),
    "a module reached through another": ("import warnings\n", "warnings.sys.exit(0)", "forbidden-module"),
    "an annotation that runs": ("import typing\n", "typing.get_type_hints(fused)", "code-from-text"),
    "its class, through self": ("", "self.__class__.forward = torch.relu", "introspection"),
    "its class, through type": ("", "type(self).forward = torch.relu", "patch"),
    "its class, under another name": ("", "me = ModelNew\n        me.forward = torch.relu", "patch"),
    "a pattern": ("", "match x:\n            case t:\n                return t * 2", "torch-computation"),
    "a pattern in a sequence": (
        "",
        "match [1, x]:\n            case [_, t]:\n                return t * 2",
        "torch-computation",
    ),
    "a name of the enclosing function": (
        "def helper(t):\n    k = None\n    def put():\n        nonlocal k\n        k = t\n    put()\n    return k * 2\n",
        "return helper(out)",
        "torch-computation",
    ),
    "a global name": (
        "KEPT = None\ndef put(t):\n    global KEPT\n    KEPT = t\n",
        "put(out)\n        return KEPT * 2",
        "torch-computation",
    ),
    "a key of sorted": ("", "return sorted([out], key=lambda t: t.sum())", "torch-computation"),
    "a function called back": (
        "",
        "found = []\n        max([1], key=lambda i: found.append(out.relu()))",
        "torch-computation",
    ),
    "an operator of its own": (
        "class W:\n    def __init__(self, t):\n        self.t = t\n    def __add__(self, other):\n        return self.t.add(1)\n",
        "return W(out) + W(x)",
        "torch-computation",
    ),
    "a context of its own": (
        "class W:\n    def __init__(self, t):\n        self.t = t\n    def __enter__(self):\n        return self.t\n",
        "with W(out) as t:\n            return t * 2",
        "torch-computation",
    ),
    "an index of its own": (
        "class W:\n    def __init__(self, t):\n        self.t = t\n    def __getitem__(self, i):\n        return self.t\n",
        "return W(out)[0] * 2",
        "torch-computation",
    ),
    "a descriptor": ("class W:\n    def __get__(self, *a):\n        pass\n", "", "magic-method"),
}

CPP = {
    "a torch operator in C++": ("torch::Tensor f(torch::Tensor x) { return torch::matmul(x, x); }", "torch-in-cpp"),
    "an aten operator in C++": ("torch::Tensor f(torch::Tensor x) { return at::native::relu(x); }", "torch-in-cpp"),
    "a method in C++": ("torch::Tensor f(torch::Tensor x) { return x.matmul(x); }", "torch-in-cpp"),
    "a program started in C++": ('torch::Tensor f(torch::Tensor x) { system("id"); return x; }', "process"),
}

KERNEL = {
    "a program": ('extern "C" int f(int n, cudaStream_t s) { return system("id"); }', "process"),
    "a program, declared by hand": (
        'extern "C" int system(const char*);\nint g() { return ::system("id"); }',
        "process",
    ),
    "a program by another call": ('void g() { execl("/bin/sh", "sh", nullptr); }', "process"),
    "a fork": ("void g() { if (fork() == 0) return; }", "process"),
    "a thread": ("void g() { std::thread t([] {}); t.detach(); }", "process"),
    "a thread by its header": ("#include <thread>\n", "process"),
    "a pthread": ("void g() { pthread_create(0, 0, 0, 0); }", "process"),
    "a host callback": ("void g(cudaStream_t s) { cudaLaunchHostFunc(s, 0, 0); }", "process"),
    "a library loaded": ('void g() { dlopen("libtorch.so", 1); }', "run-time-code"),
    "a pointer to dlsym": ("auto g = &dlsym;", "run-time-code"),
    "a module loaded": ("void g() { CUmodule m; cuModuleLoadData(&m, 0); }", "run-time-code"),
    "a file opened": ('void g() { FILE* f = fopen("x", "r"); }', "file-access"),
    "a file stream": ('void g() { std::ifstream f("x"); }', "file-access"),
    "a descriptor written": ("void g() { write(1, 0, 0); }", "file-access"),
    "the environment": ('void g() { getenv("HOME"); }', "file-access"),
    "a path": ('const char* where = "/proc/self/mem";', "file-access"),
    "a file in assembly": ('asm(".incbin \\"x\\"");', "file-access"),
    "a system call in assembly": ('void g() { asm volatile("syscall"); }', "process"),
    "the process ended": ("void g() { _exit(0); }", "process-exit"),
    "code at load time": ("__attribute__((constructor)) static void g() {}", "runs-at-load"),
    "data kept in L2": ("void g() { cudaStreamAttrValue v; v.accessPolicyWindow.hitRatio = 1; }", "persisting-l2"),
    "the device reset": ("void g() { cudaDeviceReset(); }", "global-state"),
    "a softmax of cuDNN": ("void g() { cudnnSoftmaxForward(0); }", "library-use"),
    "an axpy of cuBLAS": ("void g() { cublasSaxpy(0); }", "library-use"),
}

LABELS = {
    "a stream of its own": ("void g() { cudaStream_t s; cudaStreamCreateWithFlags(&s, 1); }", "stream"),
    "the default stream": ("__global__ void k(int);\nvoid g() { k<<<dim3(1, 2), 3>>>(4); }", "stream"),
    "a graph": ("void g() { cudaGraphLaunch(0, 0); }", "cuda-graph"),
    "a copy to the host": ("void g() { cudaMemcpy(0, 0, 4, cudaMemcpyDeviceToHost); }", "host-copy"),
    "device memory that stays": ("__device__ float kept[1024];", "static-storage"),
    "fast-math": ("// fast-math\n", "fast-math"),
}


def rejections(report: GuardReport) -> dict[str, str]:
    return {finding.rule: finding.evidence for finding in report.findings if finding.severity == "reject"}


def candidate(head: str = "", init: str = "", forward: str = "") -> str:
    return f"{HEAD}{head}\n\n{CLASS.format(init=init, forward=f'        {forward}')}"


def test_the_frame_of_these_candidates_is_honest(kernelbench: Judge) -> None:
    assert kernelbench(candidate()).findings == ()
    assert kernelbench(candidate(init="        self.kept = {}\n        self.calls = 0\n")).findings == ()


@pytest.mark.parametrize("name", FORWARD)
def test_in_forward(name: str, kernelbench: Judge) -> None:
    code, rule = FORWARD[name]
    found = rejections(kernelbench(candidate(init="        self.kept = {}\n        self.calls = 0\n", forward=code)))
    assert rule in found, found
    line = code.split("\n")[0].split("'")[0]
    assert "model_new.py:" in found[rule]
    assert "`" in found[rule], line


@pytest.mark.parametrize("name", INIT)
def test_through_init(name: str, kernelbench: Judge) -> None:
    init, forward, rule = INIT[name]
    assert rule in rejections(kernelbench(candidate(init=init, forward=forward)))


@pytest.mark.parametrize("name", FILE)
def test_elsewhere_in_the_file(name: str, kernelbench: Judge) -> None:
    head, forward, rule = FILE[name]
    found = rejections(kernelbench(candidate(head=head, forward=forward)))
    assert rule in found, found


@pytest.mark.parametrize("name", TRICKS)
def test_in_roundabout_ways(name: str, kernelbench: Judge) -> None:
    head, forward, rule = TRICKS[name]
    found = rejections(kernelbench(candidate(head=head, forward=forward)))
    assert rule in found, found


@pytest.mark.parametrize("name", CPP)
def test_in_cpp_that_python_builds(name: str, kernelbench: Judge) -> None:
    code, rule = CPP[name]
    head = (
        f"from torch.utils.cpp_extension import load_inline\nSOURCE = '''\n#include <torch/extension.h>\n{code}\n'''\n"
    )
    head += "extension = load_inline('x', cpp_sources=SOURCE, functions=['f'])\n"
    found = rejections(kernelbench(candidate(head=head, forward="return extension.f(out)")))
    assert list(found) == [rule]
    assert "model_new.py:" in found[rule]
    assert "f(torch::Tensor x)" in found[rule]


@pytest.mark.parametrize("name", KERNEL)
def test_in_a_kernel_file(name: str, kernelbench: Judge) -> None:
    code, rule = KERNEL[name]
    found = rejections(kernelbench(candidate(), {"f.cu": f"#include <cstdint>\n\n{code}\n"}))
    assert rule in found, found
    assert found[rule].startswith("kernels/f.cu:")


@pytest.mark.parametrize("name", LABELS)
def test_what_is_said_and_allowed(name: str, kernelbench: Judge) -> None:
    code, rule = LABELS[name]
    report = kernelbench(candidate(), {"f.cu": code})
    assert report.ok
    assert [(finding.rule, finding.severity) for finding in report.findings] == [(rule, "label")]


def test_a_graph_in_python_is_said(kernelbench: Judge) -> None:
    report = kernelbench(candidate(init="        self.graph = torch.cuda.CUDAGraph()\n"))
    assert report.ok
    assert [finding.rule for finding in report.findings] == ["cuda-graph"]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("class ModelNew(nn.Module:\n", "syntax"),
        ("x = " + "(" * 3000 + ")" * 3000, "syntax"),
        ("import torch\n", "missing-class"),
        (HEAD + "class ModelNew(nn.ReLU):\n    pass\n", "torch-computation"),
        (HEAD + "class ModelNew(nn.Module):\n    forward = F.relu\n", "torch-computation"),
        (candidate() + "\nclass Other(nn.Module):\n    pass\n\nModelNew = Other\n", "missing-class"),
        (candidate() + "\nclass ModelNew(nn.Module):\n    pass\n", "missing-class"),
        (candidate().replace("class ModelNew", "@torch.jit.script\nclass ModelNew"), "decorator"),
        (candidate().replace("    def forward", "    @torch.jit.ignore\n    def forward"), "compile"),
    ],
)
def test_a_file_that_is_not_what_it_should_be(source: str, rule: str, kernelbench: Judge) -> None:
    assert rule in rejections(kernelbench(source))


SEQUENCE = """
class ModelNew(nn.Sequential):
    def __init__(self, features=64):
        {build}

    def forward(self, x):
        for module in {walk}:
            x = module(x)
        return x
"""


@pytest.mark.parametrize(
    ("build", "walk"),
    [
        ("super().__init__(nn.Linear(4, 4), nn.ReLU())", "self"),
        ("super().__init__(*[nn.ReLU() for _ in range(3)])", "self[1:]"),
        ("super().__init__(); self.append(nn.ReLU())", "self"),
        ("super().__init__(); self.add_module(str(0), nn.ReLU())", "self"),
        ("super().__init__(); self.add_module(str(0), nn.ReLU())", "self.children()"),
        ("super().__init__(); self.act = nn.ReLU()", "[self.get_submodule('act')]"),
    ],
)
def test_a_container_of_torchs_modules(build: str, walk: str, kernelbench: Judge) -> None:
    found = rejections(kernelbench(HEAD + SEQUENCE.format(build=build, walk=walk)))
    assert {"torch-computation", "unknown-call"} & set(found)


def test_a_missing_file_is_a_finding() -> None:
    spec = TaskSpec(
        "kernelbench", Path("/nowhere/model.py"), "Model", "model", Path("/nowhere"), Path("/nowhere/python")
    )
    assert list(rejections(check_source(Path("/nowhere"), spec))) == ["missing-file"]


def test_findings_are_bounded(kernelbench: Judge) -> None:
    report = kernelbench(candidate(forward="\n        ".join(["out = out + 1"] * 200)))
    assert len(report.findings) == 40


# --- a developer's file --------------------------------------------------------------------------------------------

CHANGED = ("        return x + self.norm(F.silu(x))\n", "        return {}\n")

MODULE = {
    "the original itself": ("x + self.norm(F.silu(x))", "torch-computation"),
    "a class of the file that computes": ("self.norm(x)", "torch-computation"),
    "a class of the file, made on the way": ("Unrelated()(x)", "torch-computation"),
    "a module given from outside": ("self.attention(x)", "unknown-call"),
    "a function of the project": ("rotary(x)", "unknown-call"),
    "what the original imports for other ends": ("x.view(int(os.environ['N']))", "forbidden-module"),
    "a method of the original that writes files": ("self.save(x)", "file-access"),
}


@pytest.mark.parametrize("name", MODULE)
def test_in_a_developers_file(name: str, module: Judge) -> None:
    code, rule = MODULE[name]
    found = rejections(module((CHANGED[0], CHANGED[1].format(code))))
    assert rule in found, found
    assert found[rule].startswith("blocks.py:")


def test_a_new_name_of_a_module_that_the_original_imports(module: Judge) -> None:
    change = ("from .layers import Attention, rotary", "from .layers import Attention, fast_norm, rotary")
    assert list(rejections(module(change, (CHANGED[0], CHANGED[1].format("x"))))) == ["import"]
