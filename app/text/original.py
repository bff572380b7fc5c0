"""What was measured of the original before anything was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.content import Content

from app.clock import amount
from app.text.bars import bar
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped
from sandbox.task_check import PASSED
from sandbox.timing.floor import share_of_copy

MOST_OPERATORS = 10


def profile_rows(profile: dict[str, Any], width: int) -> list[Row]:
    """Return where the original's time goes and what bounds it."""
    rows = [row(("The original", "bold"), (f"  {profile['precision']}", "$muted"))]
    rows += _times(profile, width)
    rows.append(row(""))
    rows += _operators(profile, width)
    rows += wrapped(Content.styled(PASSED, "$muted"), width, first="checked: ", rest="  ")
    facts = {"depends on": profile.get("depends_on", ()), "ignores": profile.get("ignores", ())}
    for name, values in facts.items():
        if values:
            rows += wrapped(Content.styled(clean(", ".join(values)), "$muted"), width, first=f"{name}: ", rest="  ")
    for note in profile.get("notes", ()):
        rows += wrapped(Content.styled(clean(note), "$text-warning"), width, first="! ", rest="  ")
    return rows


def _times(profile: dict[str, Any], width: int) -> Iterator[Row]:
    key = f"{profile.get('judged_by', 'device')}_us"
    timed = {name: b[key] for name, b in profile["baselines"].items() if b.get(key)}
    longest = max([*timed.values(), profile["copy_us"]])
    room = max(6, min(32, width - 28))
    for name, us in timed.items():
        mode = profile["baselines"][name].get("mode", name)
        label = name if mode in (name, "default") else f"{name} ({mode})"
        ready = profile["baselines"][name].get("prepare_seconds") if mode == name else None
        told = (f" ready after {ready:.0f} s", "$faint") if ready else ""
        yield row((f"{label:<12}"[:12], "$muted"), f"{us:>9.1f} µs ", (bar(us, longest, room), "$bar"), told)
    for name, baseline in profile["baselines"].items():
        if name not in timed:
            why = clipped(clean(baseline.get("error") or "the machine was busy"), width - 24)
            yield row((f"{name:<12}", "$muted"), (f"not timed: {why}", "$text-warning"))
    copied = f"{amount(profile['bytes_moved'])}B" if profile.get("bytes_moved") else ""
    yield row(
        (f"{'plain copy':<12}", "$muted"),
        f"{profile['copy_us']:>9.1f} µs " if profile["copy_us"] > 0 else f"{'not timed':>12} ",
        (bar(profile["copy_us"], longest, room), "$faint"),
        (f" {copied}", "$faint"),
    )
    best = profile["baselines"].get("best", {})
    if share := share_of_copy(best.get("device_us"), profile["copy_us"]):
        yield from wrapped(Content.styled(f"the best of them reaches {share}", "$muted"), width)


def _operators(profile: dict[str, Any], width: int) -> Iterator[Row]:
    operators = profile.get("operators", ())[:MOST_OPERATORS]
    if operators:
        room = max(12, width - 30)
        yield row((f"{'operator':<{room}} {'calls':>5} {'µs':>9} {'share':>6}", "$muted"))
        for operator in operators:
            name = clipped(clean(operator["name"]), room)
            yield row(f"{name:<{room}} {operator['calls']:>5} {operator['us']:>9.1f} {operator['share']:>6.0%}")
        if slowed := profile.get("operators_disturbed"):
            yield from wrapped(Content.styled(f"rough: {slowed}", "$text-warning"), width)
