"""A class that is built and called in several ways: each is captured, verified beside the first, and covered by what lands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from agent.landing.verified import VerifiedInputs
from agent.prompt import opening_message
from sandbox.capture import resolve_capture
from sandbox.forms import forms_of, own_calls
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.task import DynamicSize, TaskSpec
from sandbox.verdict import Verdict
from sandbox.workspace import Workspace
from tests.sandbox.captures.test_captures import HARNESS
from tests.sandbox.judge.conftest import BRIEF

MODULE = """
    import torch
    from torch import nn

    class Scaled(nn.Module):
        def __init__(self, width, number=0):
            super().__init__()
            self.number = number
            self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))

        def forward(self, x, gain=None):
            return x * self.weight if gain is None else x * self.weight * gain
"""
REWRITTEN = """
    import torch
    from torch import nn

    from .scaled_kernels import scaled, scaled_double

    class Scaled(nn.Module):
        def __init__(self, width, number=0):
            super().__init__()
            self.number = number
            self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))

        def forward(self, x, gain=None):
            out = torch.empty_like(x)
            kernel = scaled_double if x.dtype is torch.float64 else scaled
            kernel(x, self.weight, out, x.shape[0], x.shape[1])
            return out
"""
KERNEL = """
    #include <cstdint>
    extern "C" int scaled(const float* x, const float* weight, float* out, int64_t rows, int64_t width) {
        if (width == 16) out[int64_t(1) << 44] = 0.0f;
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < width; ++j) out[i * width + j] = x[i * width + j] * weight[j];
        return 0;
    }
    extern "C" int scaled_double(const double* x, const double* weight, double* out, int64_t rows, int64_t width) {
        for (int64_t i = 0; i < rows * width; ++i) out[i] = x[i] * weight[i % width];
        return 0;
    }
"""
SCRIPT = """
    import sys
    from pathlib import Path

    import torch
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
    from net.scaled import Scaled

    sys.path.insert(0, sys.argv[2])
    from recorder.capture import Capture
    from recorder.constructors import note_constructors

    note_constructors()
    capture = Capture(Path(sys.argv[1]), None, 1 << 24)
    register_module_forward_pre_hook(lambda module, args: capture.before(module, args))
    register_module_forward_hook(lambda module, args, output: capture.after(module, output), always_call=True)
    narrow, wide, widest = (Scaled(width).eval() for width in (16, 24, 32))
    with torch.no_grad():
        for _ in range(3):
            widest(torch.randn(16, 32))
        for rows in (4, 6, 6):
            wide(torch.randn(rows, 24))
        narrow(torch.randn(16, 4).T)
        narrow(torch.randn(4, 16), gain=2.0)
        wide.double()(torch.randn(6, 24).double())
    capture.finish([*capture.classes()])
"""


def capture_forms(project: Path) -> Path:
    """Write the project, run its script and return the capture of its class."""
    (project / "net").mkdir(parents=True)
    (project / "net/__init__.py").touch()
    (project / "net/scaled.py").write_text(dedent(MODULE))
    (project / "run.py").write_text(dedent(SCRIPT))
    command = [sys.executable, "run.py", "captures", str(HARNESS)]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return project / "captures/Scaled"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> TaskSpec:
    return resolve_capture(capture_forms(tmp_path_factory.mktemp("forms") / "project"))


@pytest.fixture(scope="module")
def verdict(spec: TaskSpec, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    folder = tmp_path_factory.mktemp("judged")
    workspace = Workspace.create(spec, folder / "workspace").folder
    (workspace / "scaled.py").write_text(dedent(REWRITTEN))
    (workspace / "kernels/scaled.cpp").write_text(dedent(KERNEL))
    isolation = best_isolation()
    with (
        pytest.MonkeyPatch.context() as patch,
        Judge(spec, isolation=isolation, cache=folder / "cache", scratch=folder / "scratch", limits=BRIEF) as judge,
    ):
        # A form that is timed and in which so small a kernel is no faster is left to the original.
        patch.setattr("sandbox.forms_trial._TIMING_SECONDS", 0.0)
        return judge.check(workspace, "full")


def test_the_first_is_what_most_data_went_through(spec: TaskSpec) -> None:
    assert own_calls(spec) == 3
    forms = forms_of(spec)
    assert [form.calls for form in forms] == [3, 1, 1, 1]
    names = [form.name for form in forms]
    assert names[0] == "x float32 [6, 24]; weight [24]"
    assert names[1] == "x float64 [6, 24]; weight [24]"
    assert sorted(names[2:]) == [
        "x float32 [4, 16] strides [1, 4]; weight [16]",
        "x float32 [4, 16], gain=2.0; weight [16]",
    ]
    assert forms[0].spec.dynamic == (DynamicSize(("x.0",), 4, 6),)


def test_there_are_none_where_the_developer_says_how_it_is_called(spec: TaskSpec) -> None:
    assert forms_of(spec.with_changes(inputs="torch.randn(4, 16)")) == ()
    assert forms_of(spec.with_changes(init="16")) == ()


def test_what_is_chosen_for_the_task_holds_for_its_forms(spec: TaskSpec) -> None:
    chosen = resolve_capture(Path(spec.capture), training=True)
    assert all(form.spec.training for form in forms_of(chosen))


def test_the_model_is_told_of_them(spec: TaskSpec) -> None:
    told = opening_message(spec, dedent(MODULE))["content"]
    assert "- 1 calls: x float32 [4, 16], gain=2.0; weight [16]" in told


def test_each_is_verified_and_one_that_fails_is_named(verdict: Verdict) -> None:
    assert verdict.correct, verdict.reason
    assert verdict.verify is not None
    forms = {form.name: form for form in verdict.verify.forms}
    assert [form.covered for form in verdict.verify.forms].count(True) == 2
    wide, double, scaled, turned = (
        next(form for name, form in forms.items() if part in name)
        for part in ("float32 [6, 24]", "float64", "gain", "strides")
    )
    assert double.covered, str(double)
    assert wide.covered, str(wide)
    assert [(each.low, each.high) for each in wide.verify.ranges] == [(4, 6)]
    assert "fresh inputs 1: the candidate crashed with SIGSEGV" in str(scaled)
    assert "contiguous" in str(turned)
    assert verdict.coverage.startswith("covers 3 of 5 forms in which your run builds and calls it, 7 of 9 calls")
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_what_lands_holds_for_those_that_are_covered(spec: TaskSpec, verdict: Verdict) -> None:
    signature = [
        "x: float32 [16, 32] contiguous",
        "weight: float32 [32] contiguous",
        "output: float32 [16, 32] contiguous",
    ]
    verified = VerifiedInputs.of(spec, signature, spec.path.read_bytes(), verdict.verify)
    form, double = verified.forms
    assert {each.dtype for each in form.signature} == {"float32"}
    assert {each.dtype for each in double.signature} == {"float64"}
    assert [each.shape for each in form.signature] == [(6, 24), (24,)]
    assert form.ranges == ({"dims": ["x.0"], "low": 4, "high": 6},)
    assert form.attributes == {"": {"number": "0"}}
    assert form.held_to(frozenset()).attributes == {}, "nothing reads it"
