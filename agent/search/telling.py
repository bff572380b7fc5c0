"""What a search says: to its agents when they begin, and to the developer when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.framing import as_data, fenced
from agent.outcome import best_line, landed_lines, next_line
from agent.search.record import Member, Record
from agent.session import read_state, summarise
from agent.state import Judged
from agent.verdict_text import verdict_text


def first_words(record: Record, agent: int, idea: str, best: tuple[Member, Judged] | None) -> str:
    """Return what an agent is told at the start of its session."""
    said = [
        (
            f"You are agent {agent} of {record.agents} that work on this task side by side, each in a workspace of its own. "
            f"Begin with this idea, and leave it when measurements speak against it: {idea}"
        )
    ]
    if best is not None:
        member, judged = best
        said.append(
            f"Your workspace does not hold the original but the best so far, from agent {member.agent} in round {member.round}; "
            f"Read its files before you change them.\n{fenced(as_data(verdict_text(judged.verdict, judged.attempt)))}"
        )
        found = [
            f"agent {m.agent}, round {m.round} ({m.idea}): {best_line(read_state(m.session))}" for m in record.members
        ]
        said.append("What the agents found so far:\n" + "\n".join(found))
    return "\n\n".join(said)


def table(record: Record, winner: Member | None) -> str:
    """Return a line for each session of a search: round, agent, attempts, best, cost, end, model and idea."""
    head = f"{'round':>5} {'agent':>5} {'session':9} {'attempts':>8} {'best':>7} {'reward':>6} {'cost':>8}  ended, model, idea"
    return "\n".join([head, *(_row(record, member, member == winner) for member in record.members)])


def _row(record: Record, member: Member, won: bool) -> str:
    of = summarise(member.session)
    best = "-" if of.best_speedup is None else f"{of.best_speedup:.2f}×"
    reward = "-" if of.best_reward is None else str(of.best_reward)
    cost = "-" if of.cost_usd is None else f"${of.cost_usd:.3f}"
    end = record.ended.get(str(member.session), of.outcome)
    told = f"{end}, {member.model or '-'}, {member.idea[:60]}{'  <- the best' if won else ''}"
    return f"{member.round:>5} {member.agent:>5} {of.id:9} {of.attempts:>8} {best:>7} {reward:>6} {cost:>8}  {told}"


def summary(record: Record, winner: Member | None, unlanded: Sequence[str] = ()) -> str:
    """Return how a search ended, in a few lines."""
    lines = [f"search: {record.id}", table(record, winner)]
    if winner is None:
        lines.append("no correct candidate")
    else:
        state = read_state(winner.session)
        lines += [
            best_line(state),
            *landed_lines(state),
            f"session: {winner.session}",
            next_line(state, winner.session),
        ]
    lines += [f"not landed: {reason}" for reason in unlanded]
    return "\n".join(lines) + "\n"


def outcome(record: Record, best: tuple[Member, Judged] | None, unlanded: Sequence[str] = ()) -> dict[str, Any]:
    """Return how a search ended as the last line of ``--json``: sessions, the best attempt, what spoke against landing."""
    sessions = [
        {**vars(m), "session": str(m.session), "ended": record.ended.get(str(m.session))} for m in record.members
    ]
    found = best and {"session": str(best[0].session), "attempt": best[1].attempt, "verdict": best[1].verdict.to_json()}
    return {
        "type": "search_ended",
        "search": record.id,
        "sessions": sessions,
        "best": found,
        "unlanded": list(unlanded),
    }
