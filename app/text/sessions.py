"""The list of sessions, a line each: what, when, with which model, how far it came, how it ended."""

from __future__ import annotations

from agent.session import SessionSummary
from app.clock import age, now
from app.text.plain import clean, clipped
from app.text.rows import Row, row

_OUTCOMES = {
    "finished": ("done", "$text-success"),
    "new": ("not begun", "$muted"),
    "running": ("● open elsewhere", "$text-primary"),
    "stopped": ("cut off", "$text-warning"),
    "interrupted": ("stopped", "$text-warning"),
    "turn_limit": ("out of turns", "$text-warning"),
    "token_limit": ("out of tokens", "$text-warning"),
    "cost_limit": ("out of money", "$text-warning"),
    "time_limit": ("out of time", "$text-warning"),
}


def session_heading(width: int) -> Row:
    """Return the heading of the list."""
    title, model = _rooms(width)
    return row(
        (f"  {'module':<{title}} {'changed':<12} {'model':<{model}} {'tries':>5} {'best':>8}  outcome", "$muted")
    )


def session_row(session: SessionSummary, width: int, *, here: bool) -> Row:
    """Return a session's line; ``here`` marks the one that is open on this screen."""
    title, model = _rooms(width)
    best = f"{session.best_speedup:.2f}×" if session.best_speedup else "–"
    outcome, style = _OUTCOMES.get(session.outcome, (f"✗ {session.outcome.replace('_', ' ')}", "$text-error"))
    if here:
        outcome, style = "● open here", "$text-primary"
    landed = ("  ✓ landed", "$text-success") if session.landed else ("", "")
    return row(
        "  ",
        (f"{clipped(clean(session.title), title):<{title}} ", "bold"),
        (f"{age(now() - session.changed):<12} ", "$muted"),
        (f"{clipped(clean(session.model) or '–', model):<{model}} ", "$muted"),
        f"{session.attempts:>5} {best:>8}  ",
        (outcome, style),
        landed,
    )


def _rooms(width: int) -> tuple[int, int]:
    """Cells for the title and for the model."""
    room = max(30, width - 60)
    return room * 3 // 5, room - room * 3 // 5
