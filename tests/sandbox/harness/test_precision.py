"""The precision class: from dtypes, from the flags, and from what switching them changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from warpsmith_harness import load, precision

HARNESS = Path(load.__file__).parents[1]
MATMUL = torch.backends.cuda.matmul
CUDNN = torch.backends.cudnn


@pytest.fixture(autouse=True)
def _flags_as_before():
    before = MATMUL.allow_tf32, CUDNN.allow_tf32
    yield
    MATMUL.allow_tf32, CUDNN.allow_tf32 = before


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([torch.float32], "fp32"),
        ([torch.float16, torch.float16, torch.float32], "fp16"),
        ([torch.bfloat16], "bf16"),
        ([torch.float64], "fp64"),
        ([torch.float8_e4m3fn], "fp8"),
        ([torch.complex64], "fp32"),
        ([torch.int64], "fp32"),
        ([], "fp32"),
    ],
)
def test_class_of_most_elements(dtypes, expected) -> None:
    assert precision.class_of([torch.zeros(8).to(dtype) for dtype in dtypes]) == expected


@pytest.mark.parametrize("allowed", [True, False])
def test_flags_are_set_and_restored(allowed) -> None:
    MATMUL.allow_tf32, CUDNN.allow_tf32 = False, True
    with precision.tf32(allowed):
        assert (MATMUL.allow_tf32, CUDNN.allow_tf32) == (allowed, allowed)
    assert (MATMUL.allow_tf32, CUDNN.allow_tf32) == (False, True)


@pytest.mark.parametrize(("declared", "expected"), [("tf32", True), ("fp32", False), ("auto", None), ("bf16", None)])
def test_declared_class_sets_the_flags_when_the_task_loads(make_task, declared, expected) -> None:
    MATMUL.allow_tf32, CUDNN.allow_tf32 = False, True
    make_task("class Block(nn.Module):\n    def forward(self, x):\n        return x\n", precision=declared)
    assert (MATMUL.allow_tf32, CUDNN.allow_tf32) == ((False, True) if expected is None else (expected, expected))


def test_declared_class_wins_over_the_file(make_task) -> None:
    source = "class Block(nn.Module):\n    def forward(self, x):\n        return x\n"
    make_task("torch.backends.cuda.matmul.allow_tf32 = True\n" + source, precision="fp32")
    assert not MATMUL.allow_tf32


@pytest.mark.skipif(not hasattr(MATMUL, "fp32_precision"), reason="this torch has only the older flags")
def test_projects_that_use_the_newer_flags() -> None:
    """torch refuses the older ones in such a process; it runs in one of its own."""
    script = f"""
import sys
sys.path[0] = {str(HARNESS)!r}
import torch
torch.backends.cuda.matmul.fp32_precision = "tf32"
from warpsmith_harness import precision
with precision.tf32(False):
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert torch.backends.cudnn.conv.fp32_precision == "ieee"
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
precision.apply("fp32")
assert torch.backends.cuda.matmul.fp32_precision == "ieee"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Rounding:
    """Runs as a device would: rounds to TF32's 10 bits where the flags allow it and it has a choice."""

    def __init__(self, capable: bool) -> None:
        self._capable = capable
        self._x = torch.randn(64)

    def __call__(self) -> list[torch.Tensor]:
        if self._capable and MATMUL.allow_tf32:
            return [(self._x.view(torch.int32) & ~0x1FFF).view(torch.float32)]
        return [self._x]


@pytest.mark.parametrize(
    ("capable", "present", "expected"),
    [
        (True, True, (True, True)),
        (True, False, (False, True)),
        (False, True, (False, False)),
        (False, False, (False, False)),
    ],
)
def test_measured_by_switching_the_flags(capable, present, expected) -> None:
    MATMUL.allow_tf32 = present
    assert precision.uses_tf32(Rounding(capable)) == expected
    assert MATMUL.allow_tf32 is present


@pytest.mark.parametrize(("shift", "expected"), [(2**-24, (False, False)), (2**-11, (True, True))])
def test_another_float32_algorithm_is_no_tf32(shift, expected) -> None:
    """A library may choose by the flag; only what makes the answer much less exact is TF32."""
    exact = torch.randn(256, dtype=torch.float64)

    def run() -> list[torch.Tensor]:
        return [(exact * (1 + (shift if MATMUL.allow_tf32 else -(2**-24)))).float()]

    MATMUL.allow_tf32 = True
    assert precision.uses_tf32(run, [exact]) == expected
