"""Compares a candidate's outputs with the reference's and the oracle's, within an error budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Iterator, Optional, Sequence, Union

import torch

from warpsmith_harness.diagnose import diagnose
from warpsmith_harness.oracle import Oracle, oracle

__all__ = ["Oracle", "compare", "inexact", "oracle", "own_error", "row_errors", "row_scales"]

_CHUNK = 1 << 22
_LEAST_ROW = 32
"""Elements of a row from which its own largest error says something of how far rounding goes in it."""
_OWN_ERRORS = 2.0
_ULPS = 8.0
_NARROW_ULPS = 2.0
"""Units of a large element itself that it may be off in half precision: 8 of bfloat16 are what float8 rounds away, and 4 of
float16 what bfloat16 does."""
_NARROW = 1e-4
_PUBLISHED = 1e-2
_ROUNDING = 12**-0.5
"""RMS of a rounding error in units in the last place."""


@dataclass(frozen=True)
class _Budget:
    """What an element may be off: ``absolute`` and the larger of ``least`` and ``relative * |target|``.

    The target is the exact value or, if published, the reference's. ``absolute`` is one number for all, or one for each row
    of ``row_errors``.
    """

    absolute: Union[float, torch.Tensor]
    relative: float
    least: float = 0.0
    published: bool = False

    def allowed(self, target: torch.Tensor, start: int, whole: torch.Tensor) -> torch.Tensor:
        """Return what elements may be off that begin at ``start`` in the flattened output, ``whole``."""
        absolute = self.absolute
        if isinstance(absolute, torch.Tensor):
            place = torch.arange(start, start + target.numel(), device=absolute.device)
            absolute = absolute[torch.div(place, _row_width(whole), rounding_mode="floor")]
        return target.abs().mul_(self.relative).clamp_(min=self.least).add_(absolute)

    def at(self, target: torch.Tensor, index: int, whole: torch.Tensor) -> float:
        """Return what one element may be off; where the target is not finite, what a zero may."""
        one = target.reshape(-1)[index : index + 1]
        return float(self.allowed(torch.where(torch.isfinite(one), one, 0), index, whole))


@dataclass(frozen=True)
class _Result:
    """The outcome for one output; ``scale`` is the oracle's RMS, ``typical`` the errors', ``own_errors`` as in ``compare``."""

    error: Optional[float]
    scale: float
    reason: str
    typical: float = 0.0
    own_errors: Optional[float] = None


@dataclass(frozen=True)
class _Errors:
    """Errors of finite elements: the largest, their RMS, and the RMS of what is exact."""

    largest: float
    typical: float
    scale: float


def compare(
    candidate: Sequence[Any],
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    tolerance: str = "budget",
    rows: Optional[torch.Tensor] = None,
    own: Optional[Sequence[torch.Tensor]] = None,
    names: Optional[Sequence[str]] = None,
) -> dict[str, Any]:
    """Compare a candidate's outputs with the reference's, each in order.

    Within ``budget``, the error against the oracle may be two times the reference's own, plus 8 units in the last place
    at the output's RMS or at the element itself, whichever is larger (in half precision 2 at the element: more would let
    a lower precision pass). Where an output has a heavy tail, one rounding of a large element may be more than all units
    at the RMS. Where ``own`` says how far the reference's errors go in each row, the rows have budgets of their own: one
    huge element must not make the other rows' large. With ``1e-2`` it may differ from the reference by 1e-2 absolute
    plus 1e-2 relative. Integers and booleans must equal the reference's or the oracle's. NaN and infinities may stand
    only where the oracle, at the output's dtype, or the reference has the same.

    Args:
        candidate: The candidate's outputs.
        reference: The reference's at its own dtype, on the same inputs and state.
        exact: The oracle's (``Oracle.outputs``).
        tolerance: ``budget`` or ``1e-2``.
        rows: ``Oracle.rows``, if the oracle was sampled.
        own: ``row_errors`` of each output, the largest of several runs.
        names: What to call the outputs in a reason.

    Returns:
        ``ok``, ``max_abs_error`` (null when nothing could be compared), ``max_rel_error`` (the same over the RMS of the
        exact output, the largest of all outputs), ``own_errors`` (the RMS of the errors over that of the reference's own, or
        over what rounding makes of the RMS output where that is larger; the largest of all outputs, null where no oracle
        tells) and ``reason`` (empty if ok).
    """
    if len(candidate) != len(reference):
        return _verdict([], f"The output must hold {len(reference)} tensors, and holds {len(candidate)}.")
    results: list[_Result] = []
    for index, (got, wanted, best) in enumerate(zip(candidate, reference, exact)):
        name = names[index] if names else "The output" if len(reference) == 1 else f"Output {index}"
        reason = _form(got, wanted)
        errors = own[index] if own is not None else None
        results.append(
            _Result(None, 0.0, reason) if reason else _compare_one(got, wanted, best, tolerance, rows, errors)
        )
        if results[-1].reason:
            return _verdict(results, f"{name} {results[-1].reason}")
    return _verdict(results, "")


def _verdict(results: list[_Result], reason: str) -> dict[str, Any]:
    known = [result for result in results if result.error is not None]
    absolute = max((result.error for result in known if result.error is not None), default=None)
    relative = max((_ratio(result.error, result.scale) for result in known if result.error is not None), default=None)
    times = max((each.own_errors for each in known if each.own_errors is not None), default=None)
    return {
        "ok": not reason,
        "max_abs_error": absolute,
        "max_rel_error": relative,
        "own_errors": times,
        "reason": reason,
    }


def _ratio(error: float, scale: float) -> float:
    return error / scale if scale else (0.0 if error == 0 else math.inf)


def _form(got: Any, wanted: torch.Tensor) -> str:
    """Return what is wrong with an output apart from its values."""
    if not isinstance(got, torch.Tensor):
        return f"must be a tensor, and is {type(got).__name__}."
    if got.shape != wanted.shape:
        return f"must have the shape {list(wanted.shape)}, and has {list(got.shape)}."
    if got.dtype != wanted.dtype:
        return f"must be {wanted.dtype}, and is {got.dtype}."
    if got.device != wanted.device:
        return f"must be on {wanted.device}, and is on {got.device}."
    if wanted.is_contiguous() and not got.is_contiguous():
        return f"must be contiguous, and has the strides {list(got.stride())}."
    return ""


def _compare_one(
    got: torch.Tensor,
    wanted: torch.Tensor,
    best: torch.Tensor,
    tolerance: str,
    rows: Optional[torch.Tensor],
    errors: Optional[torch.Tensor],
) -> _Result:
    if got.numel() == 0:
        return _Result(0.0, 0.0, "")
    if not (wanted.is_floating_point() or wanted.is_complex()):
        return _compare_exactly(got, wanted, best, rows)
    if rows is None:
        return _compare_whole(got, wanted, best, tolerance, errors)
    own, scale = own_error(wanted[rows], best)
    own = own if errors is None else max(own, float(errors.max()))
    budget = _budget(wanted.dtype, own, scale, tolerance)
    sampled = _within(got[rows], wanted[rows], best, [budget], scale)
    if sampled.reason:
        return sampled
    # Rows without an oracle are held against the reference, whose own error there can exceed that of the sample.
    loose = replace(budget, absolute=2 * (budget.absolute + own), relative=2 * budget.relative, least=2 * budget.least)
    rest = _within(got, wanted, wanted, [budget if budget.published else loose], scale)
    return rest if rest.reason else sampled


def _compare_whole(
    got: torch.Tensor, wanted: torch.Tensor, best: torch.Tensor, tolerance: str, errors: Optional[torch.Tensor]
) -> _Result:
    own = _errors(wanted, best)
    result = _within(got, wanted, best, _budgets(wanted.dtype, own.largest, own.scale, tolerance, errors), own.scale)
    usual = max(own.typical, _ROUNDING * torch.finfo(wanted.dtype).eps * own.scale)
    known = tolerance == "budget" and not result.reason and usual > 0
    return replace(result, own_errors=result.typical / usual) if known else result


def _compare_exactly(
    got: torch.Tensor, wanted: torch.Tensor, best: torch.Tensor, rows: Optional[torch.Tensor]
) -> _Result:
    wrong = got != wanted
    if rows is None:
        wrong &= got != best.to(got.dtype)
    else:
        wrong[rows] &= got[rows] != best.to(got.dtype)
    if not bool(wrong.any()):
        return _Result(0.0, 0.0, "")
    error = float((got.double() - wanted.double()).abs().max())
    return _Result(error, 0.0, diagnose(got, wanted, wrong, 0.0))


def _budget(dtype: torch.dtype, own: Union[float, torch.Tensor], scale: float, tolerance: str) -> _Budget:
    if tolerance == "1e-2":
        return _Budget(_PUBLISHED, _PUBLISHED, published=True)
    eps = torch.finfo(dtype).eps
    return _Budget(_OWN_ERRORS * own, (_ULPS if eps < _NARROW else _NARROW_ULPS) * eps, _ULPS * eps * scale)


def _budgets(
    dtype: torch.dtype, own: float, scale: float, tolerance: str, errors: Optional[torch.Tensor]
) -> list[_Budget]:
    """Return the budgets of which an element must keep one."""
    budget = _budget(dtype, own, scale, tolerance)
    if errors is None:
        return [budget]
    # A row whose few runs came out exact by chance gets what is usual.
    by_row = _budget(dtype, torch.maximum(errors, errors.median()), scale, "budget")
    return [by_row, budget] if budget.published else [by_row]


def own_error(wanted: torch.Tensor, best: torch.Tensor) -> tuple[float, float]:
    """Return the reference's largest error against the oracle, and the oracle's RMS, both over finite elements."""
    errors = _errors(wanted, best)
    return errors.largest, errors.scale


def _errors(ours: torch.Tensor, exact: torch.Tensor) -> _Errors:
    largest, off, squares, count = 0.0, 0.0, 0.0, 0
    for first, second in _chunks(ours, exact):
        finite = torch.isfinite(first) & torch.isfinite(second)
        errors = torch.where(finite, (first - second).abs(), 0.0)
        largest = max(largest, float(errors.max()))
        off += float((errors**2).sum())
        squares += float(torch.where(finite, second.abs() ** 2, 0.0).sum())
        count += int(finite.sum())
    return _Errors(largest, math.sqrt(off / count), math.sqrt(squares / count)) if count else _Errors(0.0, 0.0, 0.0)


def inexact(tensor: torch.Tensor) -> bool:
    """Whether rounding can change what a tensor holds: it has elements, and they are floating or complex."""
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 0


def row_errors(ours: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return the largest error of each row along the last dimension, or of the whole where rows are short; finite ones.

    What is not ``inexact`` has one, of 0.
    """
    if not inexact(ours):
        return torch.zeros(1, dtype=torch.float64, device=ours.device)
    width = _row_width(ours)
    if width == ours.numel():
        return torch.tensor([own_error(ours, exact)[0]], dtype=torch.float64, device=ours.device)
    wide = torch.complex128 if ours.is_complex() else torch.float64
    found = []
    step = max(1, _CHUNK // width)
    for first, second in zip(*(torch.split(tensor.reshape(-1, width), step) for tensor in (ours, exact))):
        off = (first.to(wide) - second.to(wide)).abs()
        largest = off.amax(dim=1)
        if not bool(torch.isfinite(largest).all()):
            largest = torch.where(torch.isfinite(off), off, 0.0).amax(dim=1)
        found.append(largest)
    return torch.cat(found)


def row_scales(exact: torch.Tensor) -> torch.Tensor:
    """Return the RMS of the finite elements of each row that ``row_errors`` tells an error of; 0 of what is not ``inexact``."""
    if not inexact(exact):
        return torch.zeros(1, dtype=torch.float64, device=exact.device)
    width = _row_width(exact)
    step = max(1, _CHUNK // width)
    found = []
    for piece in torch.split(exact.reshape(-1, width), step):
        squares = torch.where(torch.isfinite(piece), piece.abs(), 0.0).double() ** 2
        found.append(squares.mean(dim=1).sqrt())
    return torch.cat(found)


def _row_width(tensor: torch.Tensor) -> int:
    rows = tensor.dim() > 1 and tensor.shape[-1] >= _LEAST_ROW
    return tensor.shape[-1] if rows else max(1, tensor.numel())


def _within(
    got: torch.Tensor, wanted: torch.Tensor, best: torch.Tensor, budgets: Sequence[_Budget], scale: float
) -> _Result:
    """Hold every element against the budgets, of which it must keep one; the reason describes the wrong ones together."""
    error, squares, count, start = 0.0, 0.0, 0, 0
    wrong: Optional[torch.Tensor] = None  # made only where something is wrong: large outputs leave little room
    for theirs, ours, exact in _chunks(got, wanted, best):
        # The oracle's values at the output's dtype: what overflows there may be infinite in the candidate.
        rounded = exact.to(wanted.dtype).to(exact.dtype)
        near = torch.zeros_like(theirs, dtype=torch.bool)
        for budget in budgets:
            target = ours if budget.published else exact
            off = (theirs - target).abs()
            finite = torch.isfinite(theirs) & torch.isfinite(target)
            near |= finite & (off <= budget.allowed(target, start, got))
        off_here = ~(near | _same_special(theirs, ours) | _same_special(theirs, rounded))
        if bool(off_here.any()):
            wrong = torch.zeros(got.numel(), dtype=torch.bool, device=got.device) if wrong is None else wrong
            wrong[start : start + theirs.numel()] = off_here
        off = torch.where(finite, off, 0.0)
        error = max(error, float(off.max()))
        squares += float((off**2).sum())
        count += int(finite.sum())
        start += theirs.numel()
    if wrong is None:
        return _Result(error, scale, "", math.sqrt(squares / count) if count else 0.0)
    known = error if bool(torch.isfinite(got.reshape(-1)[wrong]).any()) else None
    allowed = budgets[0].at(wanted, int(wrong.int().argmax()), got)
    return _Result(known, scale, diagnose(got, wanted, wrong.view(got.shape), allowed, scale))


def _same_special(theirs: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where both are NaN, or the same infinity."""
    return (torch.isnan(theirs) & torch.isnan(other)) | (~torch.isfinite(other) & (theirs == other))


def _chunks(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield aligned pieces in double precision, so that large outputs need little memory beside them."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    wide = torch.complex128 if any(tensor.is_complex() for tensor in flat) else torch.float64
    for start in range(0, flat[0].numel(), _CHUNK):
        yield tuple(part[start : start + _CHUNK].to(wide) for part in flat)
