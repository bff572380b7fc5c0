"""A search on the screen: its agents in a line each, what one of them does and came to, and how the search goes."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from agent.ranking import best_of
from agent.search.record import Member, Record
from app.clock import amount, duration
from app.state import Judged, SessionState
from app.text.attempt import speed_style
from app.text.marks import reward_text
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped
from app.text.status import Piece, activity, problem_rows
from app.text.verdict import verdict_rows

_NUMBERS = 39
"""Cells before what an agent does."""
_LEAST_DOING, _MOST_DOING = 26, 44


def agents_heading(record: Record, width: int) -> Row:
    """Return the heading of the table of agents."""
    doing = _doing_room(width)
    who = "agent" if record.rounds == 1 else "round agent"
    return row((f"  {who:<11} {'attempts':<9}{'reward':>6}{'× eager':>8}  {'now':<{doing}} idea", "$muted"))


def agent_row(record: Record, member: Member, state: SessionState, width: int, moment: float, *, best: bool) -> Row:
    """Return an agent's line: its best attempt of how many, what that earned, what it does now, and its idea."""
    judged, doing = best_of(state.attempts), _doing_room(width)
    who = f"{member.agent:>5}" if record.rounds == 1 else f"{member.round:>5} {member.agent:>5}"
    which = f"#{judged.number} of {len(state.attempts)}" if judged else f"{len(state.attempts) or '–'}"
    told = _now(state, moment)
    return row(
        ("★ " if best else "  ", "$accent"),
        (f"{who:<11} ", "bold"),
        f"{which:<9}",
        *_earned(judged if judged else state.attempts[-1] if state.attempts else None),
        "  ",
        (f"{clipped(told[0], doing):<{doing}} ", told[1]),
        (clipped(clean(member.idea), max(1, width - _NUMBERS - doing - 2)), "$muted"),
    )


def agent_rows(member: Member, state: SessionState, width: int) -> list[Row]:
    """Return what there is to say of one agent: its idea, what went wrong, and the verdict of its best attempt, else its last."""
    rows = wrapped(Content(clean(member.idea)), width)
    rows += [row((f"by {clean(member.model)}", "$muted"))] if member.model else []
    rows += problem_rows(state.problem, width)
    judged = best_of(state.attempts) or (state.attempts[-1] if state.attempts else None)
    return [*rows, row(""), *(verdict_rows(judged, width) if judged else [row(("No attempt yet.", "$muted"))])]


def agent_title(record: Record, member: Member, state: SessionState) -> str:
    """Return the title over what there is to say of an agent."""
    judged = best_of(state.attempts)
    which = f", its best: #{judged.number}, {judged.verdict.tier}" if judged else ""
    return f"Agent {member.agent}{f' in round {member.round}' if record.rounds > 1 else ''}{which}"


def found_rows(best: tuple[Member, Judged] | None, width: int) -> list[Row]:
    """Return what a search that is over came to, and what can be done with it."""
    if best is None:
        head = Content.styled(
            "No agent has a correct candidate. Enter opens a session: see how far it came.", "$text-warning"
        )
        return wrapped(head, width)
    member, judged = best
    speed = judged.speedup()
    gain = f", {speed:.2f}× eager" if speed else ", correct and not timed"
    head = Content.styled(f"★ The best is attempt {judged.number} of agent {member.agent}{gain}.", "$text-success bold")
    return wrapped(head + Content(" o opens it: look at its changes, accept or reject them, and land it."), width)


def search_activity(
    states: Sequence[SessionState], moment: float, *, running: bool, started: float, over: bool
) -> list[Piece]:
    """Say what a search is doing."""
    if running:
        working = sum(state.running or state.step is not None for state in states)
        return [
            ("● searching", "$text-success bold"),
            (f"{working} at work", ""),
            (duration(moment - started), "$muted"),
        ]
    if over:
        return [("■ over", "bold")]
    return [("○ not finished", "$text-warning bold"), ("F5 goes on", "$muted")]


def search_place(record: Record, states: Sequence[SessionState]) -> list[Piece]:
    """Say what a search runs with, and what it has cost; what can be left out comes last."""
    settings = record.settings
    models = ", ".join(dict.fromkeys(record.models)) or settings.model or "no model"
    turns = sum(state.turn for state in states)
    pieces = [models, record.task.device, f"{turns} of {settings.turn_limit} turns"]
    if tokens := sum(state.tokens_in for state in states):
        pieces.append(f"{amount(tokens)} in {amount(sum(state.tokens_out for state in states))} out")
    if any(state.cost_usd is not None for state in states):
        pieces.append(f"${sum(state.cost_usd or 0.0 for state in states):.2f}")
    if settings.permission_mode == "ask":
        pieces.append("mode: ask, and nobody is asked in a search: denied")
    return [(clean(piece), "$muted") for piece in pieces]


def _doing_room(width: int) -> int:
    return min(_MOST_DOING, max(_LEAST_DOING, (width - _NUMBERS) * 6 // 10))


def _now(state: SessionState, moment: float) -> Piece:
    """Say what an agent does: of one that works its turn and what it is at, of one that rests why."""
    pieces = activity(state, moment)
    if state.running:
        return " ".join(text for text, _ in pieces[1:3]), ""
    return pieces[0]


def _earned(judged: Judged | None) -> list[Piece]:
    if judged is None:
        return [(" " * 14, "")]
    reward, style = reward_text(judged.verdict)
    profile = judged.verdict.profile
    measured = profile.speedup.get("eager") if profile and judged.timed else None
    ratio = (f"{measured.ratio:>8.2f}", speed_style(measured)) if measured else (f"{'–':>8}", "$muted")
    return [(f"{reward:>6}", style), ratio]
