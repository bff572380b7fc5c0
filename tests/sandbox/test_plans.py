"""Which cases a tier asks for, and how sizes are declared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.errors import UsageError
from sandbox.plans import plan_cases
from sandbox.target import parse_dynamic
from sandbox.task import DynamicSize, TaskSpec

SPEC = TaskSpec("module", Path("/blocks.py"), "Block", "blocks", Path("/"), Path(sys.executable))
INPUTS = (
    {"name": "x", "shape": [32, 64], "floating": True},
    {"name": "index", "shape": [32], "floating": False},
)
ROWS = DynamicSize(("x.0", "index.0"), 1, 4096)


def names(spec: TaskSpec = SPEC, tier: str = "full", mutates: bool = False, inputs: object = INPUTS) -> list[str]:
    return [plan.name for plan in plan_cases(spec, tier, 3, inputs, mutates)]


def test_quick_asks_for_fresh_inputs_and_once_for_what_the_task_declares() -> None:
    fresh = [
        "fresh inputs 1",
        "fresh inputs 2",
        "fresh inputs 3",
        "a few elements changed",
        "the same inputs three times",
        "tiny inputs",
        "inputs in order",
    ]
    assert names(SPEC, "quick") == fresh
    *first, gradients, size = names(SPEC.with_changes(dynamic=(ROWS,), gradients=True), "quick")
    assert first == fresh
    assert gradients == "gradients 1"
    assert size.startswith("size x.0 = index.0 = ")


def test_the_first_cases_are_watched() -> None:
    plans = plan_cases(SPEC.with_changes(device="cuda:0"), "quick", 3, INPUTS, False)
    assert [plan.watch for plan in plans] == ["operators", "device", *[""] * 5]


def test_full_asks_for_what_the_task_has() -> None:
    assert {"calls in a row", "train mode", "one huge element", "x transposed", "index misaligned by one element"} < {
        *names()
    }
    assert "calls in a row" not in names(mutates=True)
    assert "one huge element" not in names(inputs=INPUTS[1:])
    assert "eval mode" in names(SPEC.with_changes(training=True))
    assert not [name for name in names() if "gradients" in name or "size" in name]
    assert "gradients 1" in names(SPEC.with_changes(gradients=True))


def test_only_a_module_that_is_trained_must_answer_in_both_modes() -> None:
    for spec, forgiven in ((SPEC, True), (SPEC.with_changes(gradients=True), False)):
        (plan,) = [plan for plan in plan_cases(spec, "full", 1, INPUTS, False) if plan.name == "train mode"]
        assert bool(plan.forgiven) is forgiven


def test_names_are_told_apart() -> None:
    everything = names(SPEC.with_changes(dynamic=(ROWS,), gradients=True))
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("low", [0, 1, 30, 31])
def test_sizes_reach_both_ends_and_are_odd_between(low: int) -> None:
    dynamic = DynamicSize(ROWS.dims, low, 33)
    for _ in range(20):
        plans = plan_cases(SPEC.with_changes(dynamic=(dynamic,)), "full", 1, INPUTS, False)
        sizes = [plan.variant["sizes"][0] for plan in plans if "sizes" in plan.variant]
        assert sizes[:2] == [low, 33]
        assert all(low <= size <= 33 and size % 2 for size in sizes[2:])
        assert low > 30 or any(low < size < 33 for size in sizes)


def test_several_dimensions_change_at_once() -> None:
    spec = SPEC.with_changes(dynamic=(ROWS, DynamicSize(("x.1",), 8, 8192)))
    (first, *_) = [plan for plan in plan_cases(spec, "full", 1, INPUTS, False) if "sizes" in plan.variant]
    assert first.name == "size x.0 = index.0 = 1, x.1 = 8"


def test_a_declaration_and_its_way_through_json() -> None:
    dynamic = parse_dynamic("x.0, mask['of it'].1=1:4096")
    assert dynamic == DynamicSize(("x.0", "mask['of it'].1"), 1, 4096)
    spec = SPEC.with_changes(dynamic=(dynamic,), gradients=True)
    assert TaskSpec.from_json(spec.to_json()) == spec
    older = {key: value for key, value in SPEC.to_json().items() if key not in ("dynamic", "gradients")}
    assert TaskSpec.from_json(older) == SPEC


@pytest.mark.parametrize(
    "text", ["", "x.0", "x=1:4", "x.0=1", "x.0=4:4", "x.0=9:4", "x.0=a:b", ".0=1:4", "x.-1=1:4", "x.0,=1:4"]
)
def test_what_is_no_declaration(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_dynamic(text)
    assert error.value.where == f"--dynamic {text}"
    assert error.value.next_step
