"""How the limits of a search are shared out among its agents, round by round."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from agent.budget import Limits, Spent
from agent.search.record import Record
from agent.session import read_state
from agent.settings import Settings


def share(record: Record, round_number: int) -> Settings:
    """Return the settings of one agent's session in a round (from 1).

    What earlier rounds left of answers, tokens and dollars goes in equal parts to the agents of this round and of those to
    come, so that what one agent does not use is there for others. Minutes go in equal parts to the rounds, whose agents work
    at the same time.
    """
    settings, rounds = record.settings, record.rounds
    earlier = (read_state(member.session).spent for member in record.members if member.round < round_number)
    left = Limits.of(settings).after(reduce(Spent.plus, earlier, Spent()))
    parts = record.agents * (rounds - round_number + 1)
    return replace(
        settings,
        turn_limit=max(1, left.answers // parts),
        token_limit=max(1, left.tokens // parts) if left.tokens else 0,
        cost_limit_usd=left.dollars / parts,
        time_limit_minutes=settings.time_limit_minutes / rounds,
    )
