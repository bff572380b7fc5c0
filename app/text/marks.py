"""Signs that mean the same everywhere and need no colour, with the style they have where there is colour."""

from __future__ import annotations

from sandbox.verdict import Verdict

GOOD, BAD, SKIPPED, OPEN = "✓", "✗", "·", "○"


def mark(ok: bool | None) -> tuple[str, str]:
    """Return the sign for passed, failed, or (None) not run."""
    if ok is None:
        return SKIPPED, "$faint"
    return (GOOD, "$text-success") if ok else (BAD, "$text-error bold")


def parts(verdict: Verdict) -> list[tuple[str, bool | None]]:
    """Return the parts of a verdict in order with how each went, None for one that did not run."""
    profile = None if verdict.profile is None else not verdict.profile.disturbed
    reports = (("build", verdict.build), ("guard", verdict.guard), ("verify", verdict.verify))
    return [*((name, None if report is None else report.ok) for name, report in reports), ("profile", profile)]


def failed_part(verdict: Verdict) -> str:
    """Return the part a verdict failed at, or an empty text."""
    return next((name for name, ok in parts(verdict) if ok is False), "")


def reward_text(verdict: Verdict) -> tuple[str, str]:
    """Return the reward as text with its style; a dash where nothing could be judged."""
    styles = {-1: "$text-error", 1: "$text", 2: "$text-success", 3: "$text-success bold"}
    if verdict.reward is None:
        return "–", "$text-warning"
    return str(verdict.reward).replace("-", "−"), styles[verdict.reward]
