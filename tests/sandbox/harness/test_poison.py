"""What memory holds that nobody has written to."""

from __future__ import annotations

import pytest
import torch
from warpsmith_harness.diagnose import diagnose
from warpsmith_harness.poison import Poison
from warpsmith_harness.watch import Guards, OperatorWatch

CPU = torch.device("cpu")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.fixture
def nan() -> Poison:
    poison = Poison()
    poison.turn()
    return poison


@pytest.fixture
def numbers(nan: Poison) -> Poison:
    nan.turn()
    return nan


@pytest.mark.parametrize("dtype", [*FLOATS, *EIGHT_BITS, torch.complex64])
def test_floats_are_nan_in_the_first_turn(nan: Poison, dtype: torch.dtype) -> None:
    tensor = torch.zeros(7, dtype=dtype)
    nan.fill([tensor])
    assert torch.isnan(tensor.to(torch.complex64 if dtype.is_complex else torch.float32)).all()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.int32, torch.int64])
@pytest.mark.parametrize("count", [3, 40_000])
def test_everything_is_some_number_in_the_second(numbers: Poison, dtype: torch.dtype, count: int) -> None:
    tensor = torch.zeros(count, dtype=dtype)
    numbers.fill([tensor])
    assert torch.isfinite(tensor).all()
    assert (tensor != 0).all()
    assert tensor.view(torch.uint8).unique().numel() > 2


def test_no_two_turns_hold_the_same_numbers(numbers: Poison) -> None:
    first, second = torch.empty(64), torch.empty(64)
    numbers.fill([first])
    numbers.turn()
    numbers.turn()
    numbers.fill([second])
    assert not torch.equal(first, second)


def test_integers_are_minus_one_in_nans_turn(nan: Poison) -> None:
    tensor = torch.zeros(7, dtype=torch.int32)
    nan.fill([tensor])
    assert (tensor == -1).all()


def test_a_strided_view_stays_a_view(nan: Poison) -> None:
    base = torch.zeros(4, 6)
    nan.fill([base[:, 2]])
    assert torch.isnan(base[:, 2]).all()


def test_what_is_allocated_under_watch_is_filled(nan: Poison) -> None:
    with OperatorWatch(nan):
        assert torch.empty(5).isnan().all()
        assert torch.empty_like(torch.ones(3)).isnan().all()


def test_memory_from_the_c_library_is_filled(nan: Poison) -> None:
    with nan.handed_out([], CPU):
        fresh = torch.empty(1 << 20)
    assert (fresh.abs() > 1e30).all()
    nan.turn()
    with nan.handed_out([], CPU):
        assert (torch.empty(1 << 20, dtype=torch.uint8) == nan.byte).all()


@pytest.mark.parametrize("operators", [True, False])
def test_who_is_honest_where_memory_is_nan_is_seen_in_the_turn_after(operators: bool) -> None:
    """As a kernel of the catalogue's K24 does: it writes only what it finds poisoned."""
    guards = Guards(CPU, "library-ok")

    def answer(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        unwritten = out.view(torch.uint8).amin() >= 0xFE
        return out.copy_(x) if unwritten else out

    x = torch.randn(1 << 16)
    right = [
        torch.equal(guards.call(lambda: answer(x), [x], {}, [x.nbytes], [], operators=operators)[0][0], x)
        for _ in range(4)
    ]
    assert right == [True, False, True, False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_what_was_never_written_is_told_in_both_turns(nan: Poison, dtype: torch.dtype) -> None:
    wanted = torch.arange(1, 33).to(dtype)
    for _ in range(2):
        got = wanted.clone()
        nan.fill([got[16:]])
        wrong = ~(got == wanted)
        assert "never written" in diagnose(got, wanted, wrong, 0.0)
        nan.turn()
    assert "never written" not in diagnose(wanted + 1, wanted, torch.ones(32, dtype=torch.bool), 0.0)
