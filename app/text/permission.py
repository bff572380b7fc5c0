"""What the agent asks, as rows: what it would do, why, and the whole change."""

from __future__ import annotations

from textual.content import Content

from agent.events import PermissionAsked
from app.text.plain import clean
from app.text.rows import Row, row, wrapped

SHORT = 8
LETTERS = {"reject": "n", "once": "y", "session": "s", "project": "a"}


def question_title(asked: PermissionAsked) -> str:
    """Return the question in one line."""
    return "May the agent run this command?" if asked.tool == "Bash" else f"May the agent use {asked.tool}?"


def question_rows(asked: PermissionAsked, width: int, *, whole: bool) -> list[Row]:
    """Return the question; unless ``whole``, with as much of what it is about as fits into a few lines."""
    lines = [r for line in clean(asked.what).split("\n") for r in wrapped(Content.styled(line, "bold"), width)]
    lines += [_changed(line) for line in clean(asked.detail).split("\n")[2:]] if asked.detail else []
    left_out = len(lines) - SHORT
    if not whole and left_out > 0:
        lines = [
            *lines[:SHORT],
            row((f"… {left_out} more {'line' if left_out == 1 else 'lines'}: v shows all", "$text-warning")),
        ]
    kept = sorted({choice["pattern"] for choice in asked.choices if choice["pattern"]}) if whole else []
    for pattern in kept:
        lines += [row(""), *wrapped(Content.assemble(("Kept by s and a: ", "$muted"), clean(pattern)), width)]
    because = Content.assemble(("Why: ", "$muted"), clean(asked.why) if asked.why else "the agent did not say why")
    return [*lines, row(""), *wrapped(because, width)]


def _changed(line: str) -> Row:
    style = {"+": "$text-success", "-": "$text-error"}.get(line[:1], "$muted")
    return row((line, style))
