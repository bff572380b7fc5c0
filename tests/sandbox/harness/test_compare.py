"""The error budget: what passes, what fails, and what the reason says about it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from warpsmith_harness import compare as compare_module
from warpsmith_harness.compare import compare

EPS = torch.finfo(torch.float32).eps


def made(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return exact values in float64 and the reference's at its dtype."""
    exact = torch.randn(*shape, dtype=torch.float64)
    return exact, exact.to(dtype)


def judge(got, wanted, exact, tolerance="budget") -> dict:
    return compare([got], [wanted], [exact], tolerance)


class TestBudget:
    def test_edges(self) -> None:
        """A reference without error at RMS 1: eight units in the last place are the whole budget."""
        exact = torch.ones(64, dtype=torch.float64)
        wanted = torch.ones(64)
        inside, outside = wanted.clone(), wanted.clone()
        inside[5] += 8 * EPS
        outside[5] += 9 * EPS
        assert judge(inside, wanted, exact)["ok"]
        assert judge(outside, wanted, exact) == {
            "ok": False,
            "max_abs_error": pytest.approx(9 * EPS),
            "max_rel_error": pytest.approx(9 * EPS),
            "own_errors": None,
            "reason": judge(outside, wanted, exact)["reason"],
        }

    @pytest.mark.parametrize(
        ("dtype", "units"), [(torch.float32, 8), (torch.float64, 8), (torch.bfloat16, 2), (torch.float16, 2)]
    )
    def test_a_heavy_tail_has_units_of_itself(self, dtype, units) -> None:
        """One softmax row of 4,096 with a peak: 64 times the RMS, where a unit is more than all that the RMS is allowed."""
        wanted = torch.full((4096,), 2.0**-7, dtype=dtype)
        wanted[9] = 1.0
        exact = wanted.double()
        unit = torch.finfo(dtype).eps
        assert unit > 8 * unit * float(exact.square().mean().sqrt()) > unit / 8
        for index, inside, outside in ((9, units, units + 1), (8, 1 / 8, 1 / 4)):
            for sign in (1, -1):
                near, far = exact.clone(), exact.clone()
                near[index] += sign * inside * unit
                far[index] += sign * outside * unit
                assert judge(near.to(dtype), wanted, exact)["ok"]
                assert not judge(far.to(dtype), wanted, exact)["ok"]

    @pytest.mark.parametrize(
        ("dtype", "lower"), [(torch.bfloat16, torch.float8_e4m3fn), (torch.float16, torch.bfloat16)]
    )
    def test_the_next_lower_precision_does_not_pass_as_units_of_large_elements(self, dtype, lower) -> None:
        """K34: outputs rounded once to what has three bits less; all quantiles of a normal distribution."""
        wanted = torch.special.ndtri(torch.linspace(1e-4, 1 - 1e-4, 9999, dtype=torch.float64)).to(dtype)
        assert not judge(wanted.to(lower).to(dtype), wanted, wanted.double())["ok"]

    def test_rows_have_the_same_units_and_errors_of_their_own(self) -> None:
        """The first row's own error is its own: the second keeps to units at the RMS, and its large element to its own."""
        wanted = torch.full((2, 4096), 2.0**-7)
        wanted[1, 9] = 1.0
        exact = wanted.double()
        own = torch.tensor([1e-3, 0.0], dtype=torch.float64)
        for place, error, ok in (
            ((0, 5), 2e-3, True),
            ((0, 5), 2.1e-3, False),
            ((1, 5), EPS / 16, True),
            ((1, 5), EPS / 4, False),
            ((1, 9), 7 * EPS, True),
            ((1, 9), 9 * EPS, False),
        ):
            got = exact.clone()
            got[place] += error
            assert compare([got.float()], [wanted], [exact], own=[own])["ok"] is ok, (place, error)

    def test_twice_the_reference_s_own_error(self) -> None:
        exact, wanted = made(1000)
        wanted[0] += 1e-3
        got = exact.float()
        got[7] += 1.9e-3
        assert judge(got, wanted, exact)["ok"]
        got[7] += 0.3e-3
        assert not judge(got, wanted, exact)["ok"]

    def test_error_is_against_the_oracle_and_not_the_reference(self) -> None:
        exact, wanted = made(100)
        wanted += 1e-3
        result = judge(exact.float(), wanted, exact)
        assert result["ok"]
        assert result["max_abs_error"] < 1e-6

    def test_how_much_less_exact_than_the_reference(self) -> None:
        """By RMS: three of the reference's errors, and where it has none, what rounding leaves."""
        exact = torch.ones(64, dtype=torch.float64)
        wanted, got = torch.ones(64), torch.ones(64)
        assert judge(got + 2 * EPS, wanted, exact)["own_errors"] == pytest.approx(2 * 12**0.5)
        wanted += 2 * EPS
        got += 6 * EPS
        assert judge(got, wanted, exact)["own_errors"] == pytest.approx(3)
        assert judge(got.int(), wanted.int(), exact)["own_errors"] is None
        assert judge(got, wanted, exact, "1e-2")["own_errors"] is None

    @settings(max_examples=30, deadline=None)
    @given(st.floats(1e-6, 1e6), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
    def test_the_reference_passes_as_its_own_candidate(self, scale, dtype) -> None:
        exact = torch.randn(50, dtype=torch.float64) * scale
        wanted = exact.to(dtype)
        assert judge(wanted.clone(), wanted, exact)["ok"]

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_lower_precision_fails(self, dtype) -> None:
        """K34: a float32 task done in half precision."""
        exact, wanted = made(64, 64)
        result = judge(wanted.to(dtype).float(), wanted, exact)
        assert not result["ok"]
        assert "as from computing or accumulating in a lower precision" in result["reason"]

    def test_tf32_fails_a_float32_task(self) -> None:
        a, b = torch.randn(64, 64), torch.randn(64, 64)
        exact, wanted = a.double() @ b.double(), a @ b
        rounded = [(m.view(torch.int32) & ~0x1FFF).view(torch.float32) for m in (a, b)]
        assert "lower precision" in judge(rounded[0] @ rounded[1], wanted, exact)["reason"]

    def test_another_order_of_summation_passes(self) -> None:
        a, b = torch.randn(64, 4096), torch.randn(4096, 64)
        halves = a[:, :2048] @ b[:2048] + a[:, 2048:] @ b[2048:]
        assert judge(halves, a @ b, a.double() @ b.double())["ok"]

    def test_large_outputs_are_judged_in_pieces(self, monkeypatch) -> None:
        exact, wanted = made(100, 7)
        whole = judge(wanted + 1e-7, wanted, exact)
        monkeypatch.setattr(compare_module, "_CHUNK", 64)
        pieces = judge(wanted + 1e-7, wanted, exact)
        assert (pieces["ok"], pieces["max_abs_error"]) == (True, whole["max_abs_error"])
        assert pieces["max_rel_error"] == pytest.approx(whole["max_rel_error"])
        wrong = wanted.clone()
        wrong[99, 6] = 5.0
        assert "[99, 6]" in judge(wrong, wanted, exact)["reason"]

    def test_errors_are_the_largest_of_all_outputs(self) -> None:
        exact, wanted = made(10)
        wanted[0] += 1
        result = compare([exact.float(), wanted], [wanted, wanted], [exact, exact])
        assert result["ok"]
        assert result["max_abs_error"] == pytest.approx(1.0)

    def test_empty_outputs(self) -> None:
        assert judge(torch.zeros(0, 3), torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.float64))["ok"]
        assert compare([], [], []) == {
            "ok": True,
            "max_abs_error": None,
            "max_rel_error": None,
            "own_errors": None,
            "reason": "",
        }

    def test_complex(self) -> None:
        exact = torch.randn(64, dtype=torch.complex128)
        wanted = exact.to(torch.complex64)
        assert judge(wanted.clone(), wanted, exact)["ok"]
        assert not judge(wanted.conj().resolve_conj(), wanted, exact)["ok"]


class TestPublishedTolerance:
    def test_absolute_and_relative(self) -> None:
        wanted = torch.tensor([0.0, 100.0])
        exact = wanted.double()
        assert judge(wanted + torch.tensor([0.0099, 1.0]), wanted, exact, "1e-2")["ok"]
        assert not judge(wanted + torch.tensor([0.0101, 0.0]), wanted, exact, "1e-2")["ok"]
        assert not judge(wanted + torch.tensor([0.0, 1.02]), wanted, exact, "1e-2")["ok"]

    def test_relative_to_the_reference(self) -> None:
        """K42: a giant value must not earn a giant allowance."""
        wanted = torch.ones(4)
        assert not judge(wanted * 1e30, wanted, wanted.double(), "1e-2")["ok"]


class TestSpecialValues:
    def test_nan_where_the_oracle_has_none(self) -> None:
        """K41."""
        exact, wanted = made(10)
        result = judge(torch.full((10,), math.nan), wanted, exact)
        assert not result["ok"]
        assert result["max_abs_error"] is None
        assert "they were never written" in result["reason"]

    @pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
    def test_where_the_oracle_has_it(self, special) -> None:
        exact, wanted = made(10)
        exact[3] = wanted[3] = special
        assert judge(wanted.clone(), wanted, exact)["ok"]
        other = wanted.clone()
        other[3] = 0.0
        assert not judge(other, wanted, exact)["ok"]
        if special == math.inf:
            other[3] = -math.inf
            assert not judge(other, wanted, exact)["ok"]

    def test_overflow_of_the_output_s_dtype(self) -> None:
        exact = torch.tensor([1.0, 1e6], dtype=torch.float64)
        wanted = exact.to(torch.float16)
        assert torch.isinf(wanted[1])
        assert judge(wanted.clone(), wanted, exact)["ok"]

    def test_a_reference_that_overflows_where_the_oracle_does_not(self) -> None:
        """The reference's own infinity passes, and so does the right value."""
        exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
        wanted = torch.tensor([1.0, math.inf])
        assert judge(wanted.clone(), wanted, exact)["ok"]
        assert judge(torch.tensor([1.0, 2.0]), wanted, exact)["ok"]
        assert not judge(torch.tensor([1.0, 3.0]), wanted, exact)["ok"]
        assert not judge(torch.tensor([math.inf, math.inf]), wanted, exact)["ok"]


class TestIntegers:
    def test_exactly(self) -> None:
        wanted = torch.arange(10)
        assert judge(wanted.clone(), wanted, wanted)["ok"]
        result = judge(wanted + (wanted == 4), wanted, wanted)
        assert result["reason"].startswith(
            "The output has 1 of 10 elements wrong; the first at [4]: expected 4, got 5."
        )
        assert result["max_abs_error"] == 1.0

    def test_booleans(self) -> None:
        wanted = torch.tensor([True, False])
        assert judge(wanted.clone(), wanted, wanted)["ok"]
        assert not judge(~wanted, wanted, wanted)["ok"]

    def test_a_tie_may_go_the_oracle_s_way(self) -> None:
        wanted, exact = torch.tensor([3, 7]), torch.tensor([3, 8])
        assert judge(torch.tensor([3, 8]), wanted, exact)["ok"]
        assert not judge(torch.tensor([3, 9]), wanted, exact)["ok"]


class TestForm:
    @pytest.mark.parametrize(
        ("got", "reason"),
        [
            (torch.zeros(3, 4), "The output must have the shape [4, 3], and has [3, 4]."),
            (torch.zeros(4, 3).half(), "The output must be torch.float32, and is torch.float16."),
            (torch.zeros(3, 4).t(), "The output must be contiguous, and has the strides [1, 4]."),
            (torch.zeros(1, 3).expand(4, 3), "The output must be contiguous, and has the strides [0, 1]."),
            (None, "The output must be a tensor, and is NoneType."),
            (torch.zeros(4, 3, device="meta"), "The output must be on cpu, and is on meta."),
        ],
    )
    def test_each_drift_is_named(self, got, reason) -> None:
        """K43."""
        assert judge(got, torch.zeros(4, 3), torch.zeros(4, 3, dtype=torch.float64))["reason"] == reason

    def test_number_of_outputs(self) -> None:
        assert compare([], [torch.ones(1)], [torch.ones(1)])["reason"] == "The output must hold 1 tensors, and holds 0."

    def test_which_output(self) -> None:
        exact, wanted = made(5)
        result = compare([wanted, wanted + 1], [wanted, wanted], [exact, exact])
        assert result["reason"].startswith("Output 1 has all elements off")


class TestReasons:
    @pytest.mark.parametrize(
        ("spoil", "hint"),
        [
            (lambda x: torch.zeros_like(x), "They are all zero."),
            (lambda x: x * 3, "Every element is 3 times what it should be."),
            (lambda x: x + 2, "Every element is off by 2."),
            (lambda x: x.t().reshape(x.shape), "dimensions 0 and 1 in the wrong order"),
            (
                lambda x: torch.where(torch.arange(48) < 40, x, 9.0),
                "Only indices from 40 to 47 of dimension 1 are wrong.",
            ),
            (lambda x: torch.cat([x[:30], x[:2] * 0.5]), "Only the tail from flat index 1440 on is wrong"),
            (
                lambda x: torch.where(torch.arange(32)[:, None] == 7, 9.0, x),
                "Only indices 7 to 7 of dimension 0 are wrong.",
            ),
            (lambda x: torch.where(x > 1, math.nan, x), "they were never written"),
            (lambda x: torch.where(x > 1, math.nan, x * 2), "Some are NaN where the reference is finite"),
            (lambda x: x + 1e-4 * torch.randn_like(x), "as from computing or accumulating in a lower precision"),
        ],
    )
    def test_hints(self, spoil, hint) -> None:
        torch.manual_seed(3)
        exact, wanted = made(32, 48)
        result = judge(spoil(wanted).contiguous(), wanted, exact)
        assert not result["ok"]
        assert hint in result["reason"]

    def test_unwritten_integers(self) -> None:
        wanted = torch.arange(10)
        for left in (-1, torch.iinfo(torch.int64).max):
            got = torch.where(wanted > 6, left, wanted)
            assert "they were never written; only the tail from flat index 7 on" in judge(got, wanted, wanted)["reason"]

    def test_what_explains_nothing_stays_short(self) -> None:
        torch.manual_seed(4)
        exact, wanted = made(16, 16)
        reason = judge(torch.randn(16, 16), wanted, exact)["reason"]
        assert reason.count(".") - reason.count("0.") < 8
        assert "expected" in reason

    def test_scalars(self) -> None:
        exact = torch.tensor(2.0, dtype=torch.float64)
        assert "the first at []: expected 2, got 3" in judge(torch.tensor(3.0), exact.float(), exact)["reason"]

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.integers(1, 5), max_size=4), st.integers(0, 2**31))
    def test_any_shape_gets_a_reason_that_points_at_a_wrong_element(self, shape, seed) -> None:
        torch.manual_seed(seed)
        exact = torch.randn(shape, dtype=torch.float64)
        wanted = exact.float()
        got = torch.where(torch.rand(shape) < 0.3, wanted + 1, wanted)
        result = judge(got, wanted, exact)
        assert result["ok"] is torch.equal(got, wanted)
        if not result["ok"]:
            index = tuple(map(int, filter(None, result["reason"].split("at [")[1].split("]")[0].split(", "))))
            assert got[index] != wanted[index]
