"""The agent's plan in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.text.plain import clean, clipped


def plan_text(todo: Sequence[dict[str, Any]], width: int) -> str:
    """Return how far the plan is and what it is at, or an empty text without a plan."""
    if not todo:
        return ""
    done = sum(item.get("status") == "completed" for item in todo)
    current = next((item.get("content", "") for item in todo if item.get("status") == "in_progress"), "")
    text = f"plan {done}/{len(todo)}"
    return clipped(f"{text}: {clean(current)}" if current else text, width)
