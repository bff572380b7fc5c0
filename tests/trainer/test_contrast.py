"""Contrast: what is shown of earlier answers, how they are scored, and that a policy learns from comparing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.made import episodes, learner_over
from tests.trainer.single_turns import TASKS, carried_in, write_practised_policy
from trainer.__main__ import main
from trainer.contrast import Bank, Earlier, contrasted, score_of, update
from trainer.maths.group import SpeedupReward
from trainer.rollout.sampling import Sampled
from trainer.tasks.answers import Answer, Question
from trainer.tasks.memo import Outcome
from trainer.tasks.rows import practice

TASK = TASKS[0]
SLOW, FAST = "first = 0, last = columns", "first = 0, last = 24"


def answered(text: str) -> Answer:
    return Answer(Question.plain(TASK), (1,), Sampled((2,), (0.0,), truncated=False), text)


def bank(*scored: tuple[str, float]) -> Bank:
    found = Bank()
    found.take([answered(text) for text, _ in scored], [Outcome(1, "")] * len(scored), [score for _, score in scored])
    return found


def test_two_answers_of_different_buckets_are_shown_the_slower_first() -> None:
    shown = bank((FAST, 8.0), (SLOW, 0.8)).shown(TASK, np.random.default_rng(0))
    assert shown == [Earlier(SLOW, 0.8), Earlier(FAST, 8.0)]


def test_equally_fast_answers_are_no_contrast() -> None:
    draw = np.random.default_rng(0)
    assert bank((FAST, 8.0), (SLOW, 8.0)).shown(TASK, draw) == []
    assert bank((FAST, 8.0)).shown(TASK, draw) == []
    assert Bank().shown(TASK, draw) == []


def test_faster_buckets_are_shown_more_often() -> None:
    many, draw = bank(("a", 1.0), ("b", 2.0), ("c", 4.0)), np.random.default_rng(0)
    texts = [earlier.text for _ in range(300) for earlier in many.shown(TASK, draw)]
    assert texts.count("c") > texts.count("b") > texts.count("a") > 0


def test_wrong_answers_are_scored_and_never_shown() -> None:
    found = Bank()
    found.take([answered(SLOW), answered(FAST)], [Outcome(-1, ""), Outcome(3, "")], [0.0, 8.0])
    assert list(found.right[TASK.name]) == [FAST]
    assert found.seen.count == 2


def test_a_bank_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = bank((FAST, 8.0), (SLOW, 0.8))
    found.write(tmp_path / "bank.json")
    assert Bank.read(tmp_path / "bank.json") == found
    assert Bank.read(tmp_path / "nothing.json") == Bank({}, SpeedupReward())


@pytest.mark.parametrize(
    ("outcome", "score"),
    [
        (Outcome(3, "", over_eager=2.349), 2.34),
        (Outcome(1, "", over_eager=0.871), 0.88),
        (Outcome(1, "", over_eager=1.004), 1.0),
        (Outcome(-1, ""), 0.0),
    ],
)
def test_scores_are_rounded_towards_one(outcome: Outcome, score: float) -> None:
    assert score_of(outcome) == score


def test_the_question_tells_the_answers_with_their_scores() -> None:
    question = contrasted(TASK, [Earlier(SLOW, 0.8), Earlier(FAST, 8.0)])
    told = question.messages[-1]["content"]
    assert told.startswith(TASK.messages[-1]["content"])
    assert told.index(f"0.80 times as fast as PyTorch: {SLOW}") < told.index(f"8.00 times as fast as PyTorch: {FAST}")
    assert question.messages[:-1] == tuple(TASK.messages[:-1])
    assert contrasted(TASK, []).messages is TASK.messages


def test_a_divergence_with_a_weight_keeps_to_the_model_without_adapters(model: Path) -> None:
    """A policy that only compares answers is held to where it began, as in CUDA-L1."""

    def gone(weight: float) -> float | None:
        learner = learner_over(model, trains=["policy"], lora=4, actor_lr=1e-2, warm_up=1, kl=weight)
        return [update(learner, episodes(4), np.array([1.0, -1.0, 1.0, -1.0]))["reference_k3"] for _ in range(4)][-1]

    held, free = gone(1000.0), gone(1e-9)
    assert held is not None
    assert free is not None
    assert 0 < held < free / 2


@pytest.mark.slow
@pytest.mark.long
def test_a_run_fills_its_bank_and_goes_on_with_it(tmp_path: Path) -> None:
    model = write_practised_policy(tmp_path / "practised")
    memo = carried_in(tmp_path / "judged.jsonl", practice("cpu"))
    command = ["contrast", "practice", "--model", str(model), "--out", str(tmp_path / "run"), "--device", "cpu"]
    command += ["--memo", str(memo), "--tasks-a-step", "24", "--answers", "2", "--set", "reject_k3=none"]
    assert main([*command, "--steps", "1"]) == 0
    filled = Bank.read(tmp_path / "run" / "banks" / "step-000001.json")
    assert filled.seen.count == 48
    assert filled.right
    assert main([*command, "--steps", "2"]) == 0
    again = Bank.read(tmp_path / "run" / "banks" / "step-000002.json")
    assert again.seen.count == 96
    lines = [json.loads(text) for text in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[0]["contrasted"] == 0
