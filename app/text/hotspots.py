"""A ranking of module classes as rows: a line each, and what is known of the one pointed at."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content

from app.hotspots_report import calls_text, gain_text, in_time, percent, place
from app.text.bars import bar
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped
from sandbox.hotspots.gain import Gain
from sandbox.hotspots.rank import Hotspot

_BAR = 10
_NAME = 24
_MOST_VARIANTS = 6


def hotspot_heading() -> Row:
    """Return the heading of the list."""
    return row((f"  {'share':>6} {'':<{_BAR}} {'class':<{_NAME}} {'calls/step':>10} {'forward':>10}  where", "$muted"))


def hotspot_row(each: Hotspot, largest: float, width: int, root: Path) -> Row:
    """Return a class's line; ``largest`` is the share that fills the bar."""
    name = clipped(clean(each.name), _NAME)
    where = clipped(place(each, root), max(8, width - _BAR - _NAME - 36))
    return row(
        "  ",
        (f"{percent(each.share):>6} ", "bold"),
        (f"{bar(each.share, largest, _BAR):<{_BAR}} ", "$accent"),
        (f"{name:<{_NAME}} ", "$muted" if each.unopened else "bold"),
        f"{each.calls_per_step:>10.3g} {in_time(each.device_us):>10}  ",
        (where, "$muted"),
    )


def hotspot_facts(each: Hotspot, gain: Gain | None, captured: bool, width: int) -> list[Row]:
    """Return what is known of a class, fact by fact, wrapped at a width."""
    facts = [
        ("device", f"{percent(each.forward.device)} forward, {percent(each.backward.device)} backward"),
        ("host", f"{percent(each.forward.latency)} forward, {percent(each.backward.latency)} backward"),
        ("with parts", percent(each.total.device)),
        ("forward", f"{in_time(each.device_us)} on the device, {in_time(each.latency_us)} on the host, a call"),
    ]
    facts += [("to gain", gain_text(gain))] if gain is not None else []
    facts += [("capture", "its arguments, state and inputs are kept")] if captured else []
    facts += [("", f"cannot be opened: {each.unopened}")] if each.unopened else []
    rows = [line for name, text in facts for line in _fact(name, text, width)]
    for variant in each.variants[:_MOST_VARIANTS]:
        share = variant.calls / max(1, sum(other.calls for other in each.variants))
        rows += _fact(percent(share), calls_text(variant), width)
    return rows


def _fact(name: str, text: str, width: int) -> list[Row]:
    return wrapped(Content(clean(text)), width, first=f"{name:<11}", rest=" " * 11)
