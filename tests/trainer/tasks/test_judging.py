"""The desk: answers are judged for real, each distinct candidate once ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from trainer.tasks.judging import Desk, shares
from trainer.tasks.memo import Memo, Outcome
from trainer.tasks.rows import practice

TASK = practice("cpu")[0]
WRONG, WRONG_TOO, NOTHING = "first = 0, last = 0", "first = 1, last = 24", "I would begin at 0."


@pytest.mark.slow
def test_distinct_candidates_are_judged_once_ever(tmp_path: Path) -> None:
    places = {"isolation": best_isolation(), "cache": tmp_path / "cache", "scratch": tmp_path / "scratch"}
    with Desk("cpu", memo=Memo(tmp_path / "judged.jsonl"), **places) as desk:
        outcomes = desk.judge([(TASK, text) for text in (WRONG, NOTHING, WRONG_TOO, "first=0,last=0;", WRONG)])
        assert [outcome.reward for outcome in outcomes] == [-1] * 5
        assert outcomes[0] == outcomes[3] == outcomes[4]
        assert "candidate" in outcomes[0].reason
        assert "form" in outcomes[1].reason
        assert desk.judged == 2
    with Desk("cpu", memo=Memo(tmp_path / "judged.jsonl"), **places) as again:
        assert again.judge([(TASK, WRONG), (TASK, WRONG_TOO)]) == [outcomes[0], outcomes[2]]
        assert again.judged == 0


def test_what_holds_no_answer_needs_no_judge(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "judged.jsonl")
    with Desk("cpu", isolation=best_isolation(), cache=tmp_path, scratch=tmp_path, memo=memo) as desk:
        outcomes = desk.judge([(TASK, NOTHING)])
    assert outcomes[0].reward == -1
    assert desk.judged == 0


def test_shares_of_rewards() -> None:
    outcomes = [Outcome(reward, "") for reward in (-1, -1, 1, 3)]
    assert shares(outcomes) == {"wrong": 0.5, "plain": 0.25, "faster": 0.0, "fastest": 0.25}
    assert shares([]) == {}
