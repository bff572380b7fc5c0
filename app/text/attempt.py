"""Attempts in a line each: what became of them, the table of all, and how the speed went from one to the next."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from app.clock import now, when
from app.state import Judged
from app.text.marks import BAD, GOOD, failed_part, mark, parts, reward_text
from app.text.plain import clean, clipped
from app.text.rows import Row, row
from sandbox.verdict import Speedup

SPARKS = "▁▂▃▄▅▆▇█"
INTERVAL = 12
SHORTEST_NOTE = 16


def outcome(judged: Judged) -> Content:
    """Return one line on an attempt: its time and speedups, or where it failed and why."""
    verdict = judged.verdict
    number = (f"#{judged.number} ", "bold")
    failed = failed_part(verdict)
    if failed and failed != "profile":
        return Content.assemble(number, (f"{BAD} {failed} ", "$text-error"), (clean(verdict.reason), "$muted"))
    if verdict.profile is None or not judged.timed:
        head = (f"{GOOD} correct, not timed  ", "$text-warning") if verdict.correct else ""
        return Content.assemble(number, head, (clean(verdict.reason), "$muted"))
    speeds = [f"{measured.ratio:.2f}× {name}" for name, measured in verdict.profile.speedup.items()]
    reward, style = reward_text(verdict)
    return Content.assemble(
        number,
        (f"{GOOD} correct  ", "$text-success"),
        (f"{verdict.profile.us:.1f} µs  ", ""),
        ("  ".join(speeds) + "  ", "$muted"),
        ("reward ", "$muted"),
        (reward, style),
    )


def table_heading(width: int) -> Content:
    """Return the heading of the table of attempts at this width."""
    fit = _Fit(width)
    text = (
        f"{'#':>3}  b g v p {'time µs':>9}{'× eager':>8}{_interval(fit.eager)}{'× compile':>10}{_interval(fit.compile)}"
    )
    return Content.styled(f"{text}{'reward':>7}" + ("  what it says" if fit.note else ""), "$muted")


def table_row(judged: Judged, width: int, *, best: bool) -> Row:
    """Return an attempt as a row of the table; the best carries a star."""
    verdict, profile, fit = judged.verdict, judged.verdict.profile, _Fit(width)
    signs = [piece for _, ok in parts(verdict) for piece in (mark(ok), " ")]
    reward, style = reward_text(verdict)
    note = clipped(clean(verdict.reason), fit.note) if fit.note else ""
    return row(
        ("★" if best else " ", "$accent"),
        (f"{judged.number:>2}  ", "bold"),
        *signs,
        f"{profile.us:>9.1f}" if profile and judged.timed else f"{'–' if profile else '':>9}",
        *_speed(judged, "eager", 8, interval=fit.eager),
        *_speed(judged, "compile", 10, interval=fit.compile),
        (f"{reward:>7}", style),
        ("  " + note, "$muted") if note else "",
    )


class _Fit:
    """What a width has room for: the interval beside each ratio, and so many cells of the note."""

    def __init__(self, width: int) -> None:
        room = width - 47
        self.compile = room >= INTERVAL
        self.eager = room >= 2 * INTERVAL
        room -= INTERVAL * (self.compile + self.eager) + 3
        self.note = room if room >= SHORTEST_NOTE else 0


def _interval(shown: bool) -> str:
    return f" {'95 %':^11}" if shown else ""


def _speed(judged: Judged, baseline: str, room: int, *, interval: bool) -> list[tuple[str, str]]:
    profile = judged.verdict.profile
    measured = profile.speedup.get(baseline) if profile else None
    if measured is None:
        return [(" " * (room + INTERVAL * interval), "")]
    style = speed_style(measured)
    ratio = (f"{measured.ratio:>{room}.2f}", style)
    return [ratio, (f" {measured.low:>5.2f}–{measured.high:<5.2f}", "$muted")] if interval else [ratio]


def speed_style(measured: Speedup) -> str:
    """Return the style of a speedup: better, worse, or not to be told from one."""
    return "$text-success" if measured.low > 1 else "$text-error" if measured.high < 1 else "$text-warning"


def sparkline(attempts: Sequence[Judged], most: int) -> str:
    """Return how the speedup against eager went, one sign an attempt; a cross where there was none."""
    recent = list(attempts)[-most:]
    speeds = [judged.speedup() if judged.verdict.correct else None for judged in recent]
    top = max((speed for speed in speeds if speed is not None), default=1.0)
    signs = [
        "×" if speed is None else SPARKS[min(len(SPARKS) - 1, int(speed / top * (len(SPARKS) - 1)))] for speed in speeds
    ]
    return "".join(signs)


def measured_at(judged: Judged) -> str:
    """Say when an attempt was measured."""
    return when(judged.time, now())
