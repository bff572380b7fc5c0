"""The lines at the top and bottom: what the session is, and what it is doing right now."""

from __future__ import annotations

from textual.content import Content

from agent.events import JUDGED
from app.badge import isolation_badge
from app.blocks import Step, Words
from app.clock import amount, duration
from app.endings import ending
from app.state import Problem, SessionState
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped

Piece = tuple[str, str]
LEAST_CUT = 12
"""Cells of a piece that say something where not all of it fits."""


def activity(state: SessionState, moment: float) -> list[Piece]:
    """Say what the session is doing, most important first."""
    if state.running:
        pieces: list[Piece] = [("● running", "$text-success bold"), (f"turn {state.turn}/{state.turn_limit}", "")]
        if state.asked is not None:
            return [("? the agent asks", "$text-warning bold"), ("p answers", "$muted")]
        if state.step is not None:
            elapsed = duration(moment - state.step.time)
            pieces.append((f"{state.step.part}: {clipped(clean(state.step.text), 44)} {elapsed}", "$text-primary"))
        else:
            pieces.append((f"{_doing(state)} {duration(moment - state.busy_since)}", "$muted"))
            if state.ahead is not None:  # before the turn, which gives way on a narrow screen
                pieces = [pieces[0], pieces[2], (_ahead(state.ahead), "$muted"), pieces[1]]
        return pieces
    if state.step is not None:
        step = state.step
        text = f"◐ {step.part}: {clipped(clean(step.text), 44)} {duration(moment - step.time)}"
        return [(text, "$text-primary bold")]
    if state.lost:
        return [("✗ the engine is gone", "$text-error bold"), ("F5 starts it again", "$muted")]
    if state.cut_off:
        return [("○ cut off", "$text-warning bold"), ("F5 goes on", "$muted")]
    if state.end is not None:
        known = ending(state.end.reason, None)
        styles = {"good": "$text-success bold", "bad": "$text-error bold", "warn": "$text-warning bold", "info": "bold"}
        return [(f"■ {known.title}", styles[known.tone])]
    if not state.ready:
        return [("◌ starting the engine", "$muted")]
    return [("○ ready", "bold"), ("F5 lets the agent begin", "$muted")]


def _doing(state: SessionState) -> str:
    if any(not isinstance(block, Words) or block.text for block in state.live):
        return "answering"
    return state.running_call() or "thinking"


def _ahead(step: Step) -> str:
    """Say what the judge does while the model thinks, or what it came to."""
    return f"judged ahead: {clean(step.text)}" if step.part == JUDGED else f"judging ahead: {step.part}"


def place(state: SessionState) -> list[Piece]:
    """Say what the session runs with: model, device, mode, isolation, tokens, cost; what can be left out comes last."""
    environment = state.environment()
    pieces: list[Piece] = [(state.model or "no model", ""), (str(environment.get("device") or state.device or "?"), "")]
    if state.mode:
        pieces.append((f"mode: {state.mode}", ""))
    if badge := isolation_badge(environment):
        pieces.append((f"isolation: {badge}", ""))
    if state.tokens_in or state.tokens_out:
        pieces.append((f"{amount(state.tokens_in)} in {amount(state.tokens_out)} out", ""))
    if state.cost_usd is not None:
        pieces.append((f"${state.cost_usd:.2f}", ""))
    return [(clean(text), "$muted") for text, _ in pieces]


def joined(pieces: list[Piece], width: int, separator: str = " · ", *, cut: bool = False) -> Content:
    """Join as many pieces as fit, from the first; the next one is ``cut`` short if enough of it is left to be read."""
    shown: list[Piece] = []
    room = width
    for text, style in pieces:
        cost = len(text) + (len(separator) if shown else 0)
        if cost > room:
            least = LEAST_CUT + (len(separator) if shown else 0)
            if not cut or room < least:
                break
            text = clipped(text, len(text) - (cost - room))
        shown += [(separator, "$faint")] if shown else []
        shown.append((text, style))
        room -= cost
    return Content.assemble(*shown)


def problem_rows(problem: Problem | None, width: int, most: int = 6) -> list[Row]:
    """Return the problem the developer has to know of: what, where, and the next step."""
    if problem is None:
        return []
    head = Content.styled(clean(problem.what), "bold")
    rows = wrapped(head, width, first="✗ ", rest="  ")
    where = [line for line in clean(problem.where).split("\n") if line.strip()]
    for line in where[-most:]:
        rows += [row("  ", (clipped(line, width - 3), "$muted"))]
    if problem.next_step:
        rows += wrapped(Content(clean(problem.next_step)), width, first="→ ", rest="  ")
    return rows
