"""Fences around inputs and allocations: who writes beyond them is found, who keeps within is not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch
from warpsmith_harness.fences import WIDTH, Fences
from warpsmith_harness.transport import describe
from warpsmith_harness.watch import Guards

CPU = torch.device("cpu")


def rules(forward: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    x = torch.ones(8, 33)
    found = Guards(CPU, "library-ok").call(lambda: forward(x), [x], {}, [x.nbytes], [], operators=True)[2]
    return [each["rule"] for each in found if each["severity"] == "reject"]


def write(tensor: torch.Tensor, at: int) -> torch.Tensor:
    """Write a zero so many bytes behind the beginning of a tensor, below torch."""
    ctypes.memset(tensor.data_ptr() + at, 0, 1)
    return tensor


@pytest.mark.parametrize("at", [-WIDTH, -1, 8 * 33 * 4, 8 * 33 * 4 + WIDTH - 1])
def test_a_byte_beyond_what_was_allocated_is_found(at: int) -> None:
    assert rules(lambda x: write(torch.empty_like(x).copy_(x), at)) == ["beyond"]


@pytest.mark.parametrize("at", [0, 8 * 33 * 4 - 1])
def test_the_first_and_the_last_byte_are_its_own(at: int) -> None:
    assert rules(lambda x: write(torch.empty_like(x).copy_(x), at)) == []


def test_a_tensor_that_grows_is_no_fault() -> None:
    def grown(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(4).resize_(8, 33).copy_(x)

    assert rules(grown) == []


def test_scratch_of_another_kind_is_as_it_was_asked_for() -> None:
    def several(x: torch.Tensor) -> torch.Tensor:
        for dtype in (torch.bool, torch.int8, torch.float16, torch.complex128, torch.float8_e4m3fn):
            scratch = torch.empty_strided((3, 5), (1, 3), dtype=dtype)
            assert (scratch.dtype, scratch.stride(), scratch.data_ptr() % 64) == (dtype, (1, 3), 0)
        assert torch.empty(0, 7).shape == (0, 7)
        return torch.empty_like(x).copy_(x)

    assert rules(several) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_inputs_lie_within_fences(dtype: torch.dtype) -> None:
    fences = Fences()
    x = fences.blank(describe(torch.zeros(5, 7, dtype=dtype).t()), CPU)
    assert (x.shape, x.stride(), x.dtype) == ((7, 5), (1, 7), dtype)
    assert fences.broken() == []
    behind = (ctypes.c_ubyte * 16).from_address(x.data_ptr() + x.nbytes)
    assert set(behind) == {0xFF}, "who reads on reads NaN"
    write(x, x.nbytes)
    assert len(fences.broken()) == 1
