"""What counts as spent, and the time that is the run's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent import events as ev
from agent.budget import Budget, Limits, Spent
from agent.outcome import spent_lines
from agent.state import SessionState
from tests.agent.support import make_turn

ASKED = {"provider": "openai"}


async def test_the_time_limit_stands_still_while_a_question_is_open() -> None:
    budget = Budget(Limits(answers=1, minutes=0.5 / 60), Spent())
    async with budget.deadline():
        with budget.paused():
            await asyncio.sleep(0.4)
            with budget.paused():
                await asyncio.sleep(0.4)
            await asyncio.sleep(0.2)
    with pytest.raises(TimeoutError):
        async with budget.deadline():
            await asyncio.sleep(60)


async def test_a_question_that_is_open_when_the_run_is_stopped_does_not_keep_it() -> None:
    budget = Budget(Limits(answers=1, minutes=10), Spent())

    async def run() -> None:
        async with budget.deadline():
            with budget.paused():
                await asyncio.sleep(60)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_tokens_that_no_provider_counted_are_counted_here_and_that_is_said() -> None:
    state = SessionState()
    state.apply(ev.UserMessage(message={"role": "user", "content": "x" * 3000}))
    state.apply(ev.RunStarted(turn_limit=150, budget={"tokens": 5000, "minutes": 30, "cost_usd": 1.0}))
    state.apply(replace(make_turn("y" * 3000), identity=ASKED))
    assert 2000 < state.spent.tokens < 2100
    (line,) = spent_lines(state, 4.24)
    assert line == (
        f"spent: 1 of 150 turns, {state.spent.tokens:,} of 5,000 tokens (counted here, since the provider counts none), "
        "$0.00 of $1.00, 4.2 of 30 minutes"
    )


def test_each_run_is_told_against_its_own_limits_and_all_of_them_together() -> None:
    state = SessionState()
    for limit, tokens, cost in ((9, 1000, 0.5), (5, 234, 0.25)):
        state.apply(ev.RunStarted(turn_limit=limit))
        state.apply(replace(make_turn("x"), identity=ASKED, usage={"total_tokens": tokens}, cost_usd=cost))
    assert spent_lines(state, None) == [
        "spent: 1 of 5 turns, 234 tokens, $0.25",
        "in all runs: 2 turns, 1,234 tokens, $0.75",
    ]


def test_what_was_judged_before_it_was_asked_for_is_told_with_what_it_saved_and_what_was_in_vain() -> None:
    state = SessionState()
    state.apply(ev.RunStarted(turn_limit=9))
    for seconds, taken in ((5.0, True), (1.5, False), (2.25, True)):
        state.apply(ev.JudgedAhead(seconds=seconds, taken=taken))
    assert spent_lines(state, None)[-1] == (
        "judged while the model thought: 2 of 3 verdicts were asked for, 7.2 s saved, 1.5 s in vain"
    )


def test_an_answer_that_is_played_costs_nothing() -> None:
    state = SessionState()
    state.apply(make_turn("x" * 999))
    assert state.spent == Spent(answers=1)


def test_the_rest_of_limits_is_never_none_and_never_unlimited() -> None:
    limits = Limits(answers=10, tokens=1000, dollars=2.0, minutes=5.0)
    assert limits.after(Spent(4, 300, 0.5)) == Limits(6, 700, 1.5, 5.0)
    over = limits.after(Spent(12, 2000, 3.0))
    assert (over.answers, over.tokens) == (1, 1)
    assert 0 < over.dollars < 0.001
    assert Limits(answers=3).after(Spent(1, 500, 9.0)) == Limits(answers=2)
