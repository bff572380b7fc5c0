"""What is decided and done for tasks that leave no room on the device for copies; judging one is in ``judge``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from warpsmith_harness import transport
from warpsmith_harness.lent import LentArena, contents_sum, exchange
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.room import Sizes, accept_rows, measure
from warpsmith_harness.timing import Turn
from warpsmith_harness.transport import bytes_at, make_region, pack, views

GIB = 1024**3
CARD = 140 * GIB
HALF = Sizes(42 * GIB, 42 * GIB, 0, 65536, [], None, {"x": 42 * GIB}, [])
"""60 % of an H200, half of it outputs."""

ROWS = """
class Block(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y) * 2
"""


INPUTS = "torch.randn(4096, 64), torch.randn(4096, 64)"


def test_only_a_task_that_does_not_fit_twelve_times_is_judged_so() -> None:
    assert HALF.crowded(CARD)
    assert replace(HALF, inputs=8 * GIB, outputs=4 * GIB).crowded(CARD)
    assert not replace(HALF, inputs=4 * GIB, outputs=4 * GIB).crowded(CARD)


def test_what_does_not_fit_even_so_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith_harness.room._host_memory", lambda: 120 * GIB)
    HALF.check(CARD)
    replace(HALF, inputs=83 * GIB, outputs=GIB).check(CARD)
    with pytest.raises(TaskProblem, match=r"takes 168.0 GiB: inputs once \(0.0 GiB\), outputs twice \(168.0 GiB\)"):
        replace(HALF, inputs=0, outputs=84 * GIB).check(CARD)
    monkeypatch.setattr("warpsmith_harness.room._host_memory", lambda: 30 * GIB)
    with pytest.raises(TaskProblem, match=r"up to 42.0 GiB at a time, and 30.0 GiB are free"):
        HALF.check(CARD)


def test_it_is_examined_on_some_rows_and_described_whole(make_task: Callable[..., Any]) -> None:
    task = make_task(ROWS, inputs=INPUTS)
    sizes = measure(task)
    assert (sizes.inputs, sizes.outputs, sizes.rows) == (2 << 20, 1 << 20, 4096)
    accepted = accept_rows(task, sizes, 5 << 20)
    assert accepted["crowded"]
    assert accepted["signature"][0] == "x: float32 [4096, 64] contiguous"
    assert accepted["signature"][-1] == "output: float32 [4096, 64] contiguous"
    assert accepted["bytes_moved"] == 3 << 20
    assert "examined on 136 of 4096 rows" in accepted["notes"][-1]
    assert [tensor.shape[0] for tensor in task.inputs()[0]] == [4096, 4096]


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ("return torch.relu(x.add_(y)) * 2", "leaves no room for copies to tell what was changed"),
        ("return torch.relu(x + y).sum() * 0", "does not depend on its inputs"),
    ],
)
def test_what_cannot_be_judged_so_is_refused(make_task: Callable[..., Any], spoilt: str, said: str) -> None:
    task = make_task(ROWS.replace("return torch.relu(x + y) * 2", spoilt), inputs=INPUTS)
    with pytest.raises(TaskProblem, match=said):
        accept_rows(task, measure(task), 5 << 20)


def test_a_task_of_few_rows_is_refused(make_task: Callable[..., Any]) -> None:
    task = make_task(ROWS, inputs=INPUTS.replace("4096, 64", "4, 65536"))
    with pytest.raises(TaskProblem, match="it has only 4 along its first dimension"):
        accept_rows(task, measure(task), 5 << 20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_exchanging_keeps_every_element_and_undoes_itself(dtype: torch.dtype) -> None:
    tensor = torch.randn(1001, 3).to(dtype)
    before = tensor.clone()
    exchange(tensor, 0.7)
    assert not torch.equal(tensor, before)
    assert contents_sum(tensor) == contents_sum(before)
    exchange(tensor, 0.7)
    assert torch.equal(tensor, before)
    tensor[500, 1] += 1
    assert contents_sum(tensor) != contents_sum(before)


def test_timed_calls_get_new_contents_where_the_inputs_lie() -> None:
    tensor, numbers = torch.randn(64, 8), torch.arange(64)
    structure = {"kind": "tuple", "content": [{"kind": "tuple", "content": [
        {"kind": "tensor", "content": 0}, {"kind": "tensor", "content": 1}]}, {"kind": "dict", "content": []}]}  # fmt: skip
    arena = LentArena([tensor, numbers], structure, rollable=True)
    before = tensor.clone()
    (given, same), _ = arena.fill(Turn(0, 0, 0.5))
    assert given.data_ptr() == tensor.data_ptr()
    assert not torch.equal(given, before)
    assert torch.equal(same, torch.arange(64))


def test_memory_of_others_is_a_tensor_without_being_copied() -> None:
    region = make_region("host", 4096)
    kept = torch.arange(8, dtype=torch.int16)
    notes = pack([kept, torch.randn(3, 4).t()], region)
    there, transposed = views(notes, region, torch.device("cpu"))
    same = bytes_at(region.address, 16, torch.device("cpu")).view(torch.int16)
    same[3] = 77
    assert there[3] == 77
    assert transposed.stride() == (1, 4)
    del there, transposed
    region.close()


def test_much_memory_is_zeros_to_its_end_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_TOUCHED_BYTES", 1)
    monkeypatch.setattr(transport, "_TOUCHED_AT_ONCE", 1000)
    memory = torch.full((2600,), 7, dtype=torch.uint8)
    transport.touch(memory.data_ptr(), 2500)
    assert not memory[:2500].any()
    assert (memory[2500:] == 7).all()
