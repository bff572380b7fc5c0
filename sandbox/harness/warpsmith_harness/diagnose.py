"""Says what wrong values look like, so that their author knows where to search."""

from __future__ import annotations

from itertools import combinations
from typing import Optional

import torch

from warpsmith_harness.poison import C_LIBRARY_BYTE, HIGHEST, LOWEST

_EXAMINED = 1 << 26
_LOW_PRECISION = 2e-2
_TELLING = 16
"""So many bytes are all in the range of poison's numbers once in ten million times, if they are of something else."""


def diagnose(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, allowed: float, scale: float = 0.0) -> str:
    """Describe wrong elements: how many, the first one, and what they look like.

    Args:
        got: The candidate's output.
        wanted: The reference's, of the same shape and dtype.
        wrong: Where they differ too much; at least one element is true.
        allowed: How much an element may be off; 0 for exact.
        scale: The RMS of the exact output.
    """
    first = _first(wrong)
    count = int(wrong.sum())
    share = "all" if count == wrong.numel() else f"{count:,} of {wrong.numel():,}"
    off = f"off by more than {allowed:.2g}" if allowed else "wrong"
    example = f"the first at {list(first)}: expected {_show(wanted[first])}, got {_show(got[first])}"
    text = f"has {share} elements {off}; {example}."
    hint = _hint(got, wanted, wrong, allowed, scale) if got.numel() <= _EXAMINED else ""
    return f"{text} {hint}" if hint else text


def _hint(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, allowed: float, scale: float) -> str:
    bad = got[wrong]
    where = _region(wrong)
    if _is_poison(bad):
        return _sentence("They hold what unwritten memory holds: they were never written", where)
    if bool((bad == 0).all()):
        return _sentence("They are all zero", where)
    if not (got.is_floating_point() or got.is_complex()):
        return _sentence(_order(got, wanted, allowed), where)
    if bool(torch.isnan(bad).any()):
        return _sentence("Some are NaN where the reference is finite", where)
    found = _order(got, wanted, allowed) or _factor(got, wanted, allowed) or _precision(got, wanted, wrong, scale)
    return _sentence(found, where)


def _sentence(found: str, where: str) -> str:
    parts = [part for part in (found, where) if part]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _is_poison(bad: torch.Tensor) -> bool:
    """Whether values are those of poisoned memory: NaN, all bits set, the largest integer, or what ``poison`` fills with."""
    held = bad.contiguous().view(torch.uint8)
    if bool((held == C_LIBRARY_BYTE).all()):
        return True
    if held.numel() >= _TELLING and bad.dtype.itemsize > 1 and bool(((held >= LOWEST) & (held <= HIGHEST)).all()):
        return True
    if bad.is_floating_point() or bad.is_complex():
        return bool(torch.isnan(bad).all())
    if bad.dtype == torch.bool:
        return False
    low = -1 if torch.iinfo(bad.dtype).min < 0 else torch.iinfo(bad.dtype).max
    return bool((bad == low).all()) or bool((bad == torch.iinfo(bad.dtype).max).all())


def _order(got: torch.Tensor, wanted: torch.Tensor, allowed: float) -> str:
    """Name the two dimensions whose order was mixed up, if that explains the whole output."""
    for a, b in combinations(range(got.dim()), 2):
        if got.shape[a] == 1 or got.shape[b] == 1:
            continue
        swapped = wanted.transpose(a, b).reshape(got.shape)
        if _close(got, swapped, allowed) and not _close(wanted, swapped, allowed):
            return f"It holds the right values with dimensions {a} and {b} in the wrong order"
    return ""


def _factor(got: torch.Tensor, wanted: torch.Tensor, allowed: float) -> str:
    """Name a constant factor or a constant difference that explains the whole output."""
    ours, theirs = wanted.reshape(-1), got.reshape(-1)
    index = int(ours.abs().argmax())
    if ours.numel() < 2 or ours[index] == 0:
        return ""
    factor = (theirs[index] / ours[index]).item()
    if abs(factor - 1) > _LOW_PRECISION and _close(
        got, (wanted * factor).to(got.dtype), max(allowed, 1e-3 * abs(ours[index].item() * factor))
    ):
        return f"Every element is {factor:.4g} times what it should be"
    difference = (theirs[index] - ours[index]).item()
    if abs(difference) > _LOW_PRECISION * abs(ours[index].item()) and _close(
        got, (wanted + difference).to(got.dtype), max(allowed, 1e-3 * abs(difference))
    ):
        return f"Every element is off by {difference:.4g}"
    return ""


def _precision(got: torch.Tensor, wanted: torch.Tensor, wrong: torch.Tensor, scale: float) -> str:
    error = float((got - wanted).abs()[wrong].max())
    if scale and error < _LOW_PRECISION * scale and torch.finfo(got.dtype).eps < 1e-4:
        return (
            f"The errors are small everywhere ({error / scale:.1e} of the output's RMS), as from computing or "
            "accumulating in a lower precision (TF32, fp16, bf16) or from fast-math functions"
        )
    return ""


def _close(a: torch.Tensor, b: torch.Tensor, allowed: float) -> bool:
    if not a.is_floating_point() and not a.is_complex():
        return bool((a == b).all())
    return bool(((a - b).abs() <= allowed).all())


def _region(wrong: torch.Tensor) -> str:
    """Say where the wrong elements lie when they lie together: the tail, or the end or one part of a dimension."""
    if bool(wrong.all()):
        return ""
    flat = wrong.reshape(-1)
    start = int(flat.int().argmax())
    if start and bool(flat[start:].all()):
        return f"only the tail from flat index {start} on is wrong: look at the bounds of the last blocks"
    for dim in reversed(range(wrong.dim())):
        size = wrong.shape[dim]
        hit = wrong.movedim(dim, 0).reshape(size, -1).any(dim=1)
        low, high = int(hit.int().argmax()), size - 1 - int(hit.flip(0).int().argmax())
        if low > 0 and high == size - 1:
            return f"only indices from {low} to {high} of dimension {dim} are wrong"
        if 2 * (high - low + 1) <= size:
            return f"only indices {low} to {high} of dimension {dim} are wrong"
    return ""


def _first(wrong: torch.Tensor) -> tuple[int, ...]:
    index = int(wrong.reshape(-1).int().argmax())
    place = []
    for size in reversed(wrong.shape):
        index, rest = divmod(index, size)
        place.append(rest)
    return tuple(reversed(place))


def _show(value: torch.Tensor) -> str:
    plain: Optional[object] = value.item()
    return f"{plain:.6g}" if isinstance(plain, (float, complex)) else str(plain)
