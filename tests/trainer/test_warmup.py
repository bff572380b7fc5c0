"""Single-turn PPO: a tiny policy learns what earns; the same command goes on. What was judged is carried in."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from sandbox.errors import UsageError
from sandbox.isolation import best_isolation
from tests.trainer.single_turns import TASKS, carried_in, learner_on, write_practised_policy
from trainer import ppo
from trainer.__main__ import main
from trainer.data.dataset import read_set
from trainer.data.episode import Stage
from trainer.run.processes import started
from trainer.tasks.answers import Question, ask, speedup
from trainer.tasks.judging import Desk
from trainer.tasks.memo import Memo, Outcome
from trainer.tasks.rows import known_answers, practice
from trainer.warmup import Asking, SingleTurns, tasks_of

pytestmark = pytest.mark.long  # its policy alone takes most of a minute to make


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_practised_policy(tmp_path_factory.mktemp("practised"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk at which the known answers were judged elsewhere, and nobody may judge anything else."""
    memo = Memo(carried_in(tmp_path / "judged.jsonl"))
    return Desk("cpu", isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch", memo=memo)


@pytest.mark.slow
def test_a_policy_learns_to_write_what_earns(model: Path, desk: Desk) -> None:
    with started("cpu") as processes:
        turns = SingleTurns(learner_on(processes, model), desk, Asking(each=12))
        steps = [turns.step(TASKS, ppo.update) for _ in range(6)]
    rewards = [step["judged_reward"] for step in steps]
    assert fmean(rewards[-2:]) > fmean(rewards[:2]) + 0.7
    assert steps[-1]["wrong"] < steps[0]["wrong"]


def test_an_episode_tells_who_wrote_what_and_what_it_earned(model: Path, desk: Desk) -> None:
    with started("cpu") as processes:
        learner = learner_on(processes, model)
        episodes = SingleTurns(learner, desk, Asking(each=3)).collected(TASKS)
        assert learner.policy is not None
        logp = learner.logprobs(learner.batch(episodes)).logp
        told = [segment.logprobs[segment.action] for episode in episodes for segment in episode.segments]
        assert logp.tolist() == pytest.approx([value for each in told for value in each], abs=1e-4)
        hashes = learner.policy.hashes
    for episode in episodes:
        assert episode.policy.weights == hashes.weights
        assert episode.policy.tokenizer_sha256 == hashes.tokenizer_sha256
        assert episode.reward == episode.components["judged"]
        assert episode.may_enter(Stage.PPO)
    assert len({episode.source_sha256 for episode in episodes}) == len(TASKS)


def test_an_answer_ends_with_its_line_and_goes_on_from_the_opening(model: Path) -> None:
    with started("cpu") as processes:
        policy = learner_on(processes, model, ("policy",)).policy
        assert policy is not None
        answers = ask(policy, [Question.plain(TASKS[0])] * 8, temperature=1.0, seed=1)
        known = [answer + "\n" for answer in known_answers(TASKS[0]).values()]
        written = [answer for answer in answers if answer.text in known]
        assert written
        assert not any(answer.sampled.truncated for answer in written)
        assert answers == ask(policy, [Question.plain(TASKS[0])] * 8, temperature=1.0, seed=1)
        with pytest.raises(UsageError, match="leaves no room"):
            ask(policy, [Question.plain(TASKS[0])], temperature=1.0, seed=1, context=20)


def test_the_speedup_as_reward() -> None:
    assert speedup(Outcome(3, "", 10.0, 8.0, 2.5)) == 2.5
    assert speedup(Outcome(2, "", 10.0, 8.0, None)) == 8.0
    assert speedup(Outcome(-1, "")) == -1
    assert speedup(Outcome(None, "")) is None


def test_the_same_command_goes_on_and_answers_can_be_kept_as_a_set(model: Path, tmp_path: Path) -> None:
    memo = carried_in(tmp_path / "judged.jsonl", practice("cpu"))
    command = ["warmup", "practice", "--model", str(model), "--out", str(tmp_path / "run"), "--device", "cpu"]
    command += ["--memo", str(memo), "--tasks-a-step", "2", "--answers", "2", "--set", "reject_k3=none"]
    assert main([*command, "--steps", "1"]) == 0
    assert main([*command, "--steps", "2", "--collect", str(tmp_path / "set")]) == 0
    lines = [json.loads(text) for text in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert {"judged_reward", "wrong", "fastest", "entropy", "explained_variance"} <= lines[0].keys()
    kept = read_set(tmp_path / "set")
    assert len(kept) == 2 * len(practice("cpu"))
    assert {episode.policy.version for episode in kept} == {2}


def test_a_folder_that_is_not_there_is_no_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no KernelBench file"):
        tasks_of(str(tmp_path / "nowhere"), "cpu")
    assert [task.name for task in tasks_of("practice", "cpu")] == [task.name for task in practice("cpu")]
