"""What is remembered of earlier outputs: memory that a candidate keeps for them, not that of inputs it is to change."""

from __future__ import annotations

from collections.abc import Callable

import torch
from warpsmith_harness.watch import Guards

CPU = torch.device("cpu")
Forward = Callable[[torch.Tensor], torch.Tensor]


def rules(forward: Forward, inputs: list[torch.Tensor]) -> list[str]:
    """Call on each of the inputs, with nothing that the call must leave alone; return what was found."""
    guards = Guards(CPU, "library-ok")
    found = []
    for x in inputs:
        found += guards.call(lambda x=x: forward(x), [x], {}, [x.nbytes], [x], operators=False)[2]
        forward(x)  # as the judge does, to see what runs
    return [each["rule"] for each in found + guards.lasting()]


def test_an_output_that_is_the_input_may_change_with_it() -> None:
    assert rules(lambda x: x.mul_(0.5), [torch.randn(64), torch.randn(64)]) == []


def test_a_part_of_the_input_may_change_with_it() -> None:
    assert rules(lambda x: x.mul_(0.5)[16:], [torch.randn(64)]) == []


def test_memory_that_is_kept_for_outputs_is_found() -> None:
    kept = torch.empty(64)
    assert "reused-output" in rules(lambda x: torch.mul(x, 0.5, out=kept), [torch.randn(64), torch.randn(64)])


def test_memory_that_is_kept_is_found_where_the_input_changes_too() -> None:
    kept = torch.empty(64)
    assert "reused-output" in rules(lambda x: kept.copy_(x.mul_(0.5)), [torch.randn(64), torch.randn(64)])
