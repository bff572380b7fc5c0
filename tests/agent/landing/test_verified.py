"""What was verified is read from the task and from the lines the harness writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.landing.verified import VerifiedInputs, VerifiedTensor
from sandbox.errors import InternalError
from sandbox.task import TaskSpec

SOURCE = b"class M:\n    def forward(self, x, mask=None, *, scale=1.0): ...\n"


def of(signature: list[str] | None = None, source: bytes = SOURCE, **changes: object) -> VerifiedInputs:
    spec = TaskSpec("module", Path("/m.py"), "M", "m", Path("/"), Path("/python"), **changes)  # type: ignore[arg-type]
    return VerifiedInputs.of(spec, signature or [], source)


def test_the_lines_of_the_harness_are_read() -> None:
    torch = pytest.importorskip("torch")
    from warpsmith_harness.values import describe

    lines = [
        describe("x[0]['a: b']", torch.zeros(2, 3, dtype=torch.bfloat16)),
        describe("mask", torch.zeros(3, 2, dtype=torch.bool).t()),
        describe("one", torch.tensor(1)),
        describe("output 0", torch.zeros(1)),
        describe("output 1", torch.zeros(1)),
    ]
    assert of(lines).signature == (
        VerifiedTensor("x[0]['a: b']", "bfloat16", (2, 3)),
        VerifiedTensor("mask", "bool", (2, 3), (1, 2)),
        VerifiedTensor("one", "int64", ()),
    )


def test_an_input_called_output_is_an_input() -> None:
    lines = ["output: float32 [1] contiguous", "output: float32 [2] contiguous"]
    assert of(lines).signature == (VerifiedTensor("output", "float32", (1,)),)


def test_a_line_of_another_form_is_our_fault() -> None:
    with pytest.raises(InternalError, match="cannot be read"):
        of(["x is a tensor"])


def test_plain_inputs_are_named_after_the_parameters() -> None:
    stated = of(inputs="torch.randn(2), None, scale=(0.5, {'a': [1, torch.ones(1)]})").constants
    assert stated == {"mask": "None", "scale[0]": "0.5", "scale[1]['a'][0]": "1"}


def test_constructor_arguments_are_kept_as_literals() -> None:
    assert of(init="64, (3, 3), torch.float16, eps=1e-6").init == {
        "args": ["64", "(3, 3)", None],
        "kwargs": {"eps": "1e-06"},
    }
    assert of(init="").init == {"args": [], "kwargs": {}}
    assert of(init="*sizes").init is None
    assert of(source=SOURCE + b"def get_init_inputs():\n    return [64]\n").init is None
