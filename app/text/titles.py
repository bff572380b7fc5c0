"""What views and panes are called, which says what they show at the moment."""

from __future__ import annotations

from app.state import Judged, SessionState
from app.text.attempt import sparkline
from app.text.plain import clean, clipped

SOURCE, ORIGINAL, PREVIOUS, KERNELS = "source", "original", "previous", "kernels"
VIEWS = (SOURCE, ORIGINAL, PREVIOUS, KERNELS)
AGENT, VERDICT = "agent", "verdict"
SPARKLINE = 24
PLAN = 60


def view_titles(state: SessionState, judged: Judged | None, *, narrow: bool) -> dict[str, str]:
    """Return the titles of the views on code, and on a narrow screen of every pane, for the selected attempt."""
    more = {AGENT: "Agent", VERDICT: "Verdict"} if narrow else {}
    if judged is None:
        return {SOURCE: "Source", ORIGINAL: "Diff", PREVIOUS: "vs previous", KERNELS: "Kernels", **more}
    before = [other.number for other in state.attempts if other.number < judged.number]
    against = f"#{before[-1]}" if before else "start"
    number = f"#{judged.number}"
    views = {ORIGINAL: f"Diff {number}", PREVIOUS: f"{number} vs {against}", KERNELS: f"Kernels {number}"}
    return {SOURCE: "Source", **views, **more}


def attempts_title(state: SessionState) -> str:
    """Return the title of the attempts: how their speed went, and which is the best."""
    best = state.best()
    trend = f" {sparkline(state.attempts, SPARKLINE)}" if state.attempts else ""
    speed = best.speedup() if best else None
    return f"Attempts{trend}" + (f"  ★ #{best.number} {speed:.2f}× eager" if best and speed else "")


def plan_text(state: SessionState) -> str:
    """Return the agent's title: how far its plan is and what it is at, where it has one."""
    if not state.todo:
        return "Agent"
    done = sum(item.get("status") == "completed" for item in state.todo)
    current = next((item.get("content", "") for item in state.todo if item.get("status") == "in_progress"), "")
    text = f"plan {done}/{len(state.todo)}"
    return clipped(f"{text}: {clean(current)}" if current else text, PLAN)
