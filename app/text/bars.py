"""Measured amounts drawn in text: bars with eighths of a cell, and intervals with whiskers on an axis."""

from __future__ import annotations

EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(value: float, largest: float, width: int) -> str:
    """Return a bar whose length is the value's share of the largest, to an eighth of a cell; never empty."""
    if largest <= 0 or width <= 0:
        return ""
    eighths = max(1, round(min(1.0, value / largest) * width * 8))
    whole, part = divmod(eighths, 8)
    return EIGHTHS[8] * whole + (EIGHTHS[part] if part else "")


def whisker(low: float, middle: float, high: float, *, start: float, end: float, width: int, mark_at: float) -> str:
    """Return an interval on an axis from ``start`` to ``end``: ``├──●──┤``, with ``┊`` where ``mark_at`` lies."""

    def cell(value: float) -> int:
        share = (value - start) / (end - start) if end > start else 0.0
        return min(width - 1, max(0, round(share * (width - 1))))

    cells = [" "] * width
    cells[cell(mark_at)] = "┊"
    left, centre, right = cell(low), cell(middle), cell(high)
    for position in range(left, right + 1):
        cells[position] = "─"
    if left < right:
        cells[left], cells[right] = "├", "┤"
    cells[centre] = "●"
    return "".join(cells)
