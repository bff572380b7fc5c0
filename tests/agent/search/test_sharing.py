"""How a search's limits are shared out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.search.record import Member, Record, create_record
from agent.search.sharing import share
from agent.session import create_session
from agent.store import SessionWriter
from sandbox.errors import UsageError
from tests.agent.support import make_settings, make_spec, make_turn

LIMITS = {"turn_limit": 40, "token_limit": 1_000, "cost_limit_usd": 4.0, "time_limit_minutes": 10.0}


def searched(folder: Path, **limits: float) -> Record:
    settings = make_settings(folder, **limits)
    return create_record(make_spec(folder), settings, agents=2, rounds=2, ideas=[], models=[])


def worked(record: Record, agent: int, answers: int) -> None:
    """Add a session of the first round that has used so many answers, of 100 tokens and a dollar each."""
    session = create_session(record.task, record.settings, record.settings.home)
    writer = SessionWriter(session)
    for number in range(1, answers + 1):
        answer = make_turn("Done.", turn=number)
        writer.append(replace(answer, usage={"total_tokens": 100}, cost_usd=1.0))
    writer.close()
    record.add(Member(1, agent, session, "model", "idea"))


def test_what_a_round_leaves_over_is_there_for_the_next(tmp_path: Path) -> None:
    record = searched(tmp_path, **LIMITS)
    first = share(record, 1)
    assert (first.turn_limit, first.token_limit, first.cost_limit_usd, first.time_limit_minutes) == (10, 250, 1.0, 5.0)
    worked(record, 1, 1)
    worked(record, 2, 1)
    assert share(record, 1) == first
    then = share(record, 2)
    assert (then.turn_limit, then.token_limit, then.cost_limit_usd, then.time_limit_minutes) == (19, 400, 1.0, 5.0)


def test_no_limit_stays_none_and_one_that_is_used_up_never_becomes_none(tmp_path: Path) -> None:
    record = searched(tmp_path, **LIMITS)
    worked(record, 1, 50)
    used_up = share(record, 2)
    assert (used_up.turn_limit, used_up.token_limit) == (1, 1)
    assert 0 < used_up.cost_limit_usd < 0.01
    unlimited = share(replace(record, settings=make_settings(tmp_path)), 2)
    assert (unlimited.token_limit, unlimited.cost_limit_usd, unlimited.time_limit_minutes) == (0, 0, 0)


def test_fewer_turns_than_sessions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 turns cannot be shared by 2 agents in 2 rounds") as refused:
        searched(tmp_path, turn_limit=3)
    assert "4 turns at least" in refused.value.next_step
