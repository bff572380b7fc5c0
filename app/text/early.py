"""What is known of a profile while it is still being taken, as one row that stays where it is."""

from __future__ import annotations

from typing import Any

from app.text.plain import clean
from app.text.rows import Row, row

_NAMED = ("eager", "compile", "best")
_MOST_DOTS = 12


def early_row(partial: dict[str, Any], indent: int, width: int) -> Row:
    """Return the placements so far, the candidate's time, and by how much it beats which baseline."""
    done, of = int(partial["placement"]), int(partial["of"])
    dots = f"{'●' * done}{'○' * (of - done)}" if of <= _MOST_DOTS else f"{done}/{of}"
    us = partial.get("device_us", partial.get("latency_us"))
    pieces: list[tuple[str, str]] = [(dots, "$text-primary")]
    if us is not None:
        pieces.append((f"{us:.1f} µs", "bold"))
    speedup = partial.get("speedup", {})
    pieces += [(f"{speedup[name]:.2f}× {clean(name)}", "$muted") for name in _NAMED if name in speedup]
    shown: list[tuple[str, str]] = []
    room = width - indent
    for text, style in pieces:
        room -= len(text) + 2
        if room < 0:
            break
        shown += [(text, style), ("  ", "")]
    return row(" " * indent, *shown)
