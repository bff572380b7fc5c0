"""A tiny policy that has practised: it answers with lines that are right, slow and wrong, each as often; and what they earn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from trainer import rft
from trainer.data.episode import Episode
from trainer.policy.tiny import write_tiny_policy
from trainer.rollout.sampling import Sampled
from trainer.run.learner import Learner
from trainer.run.options import learner_of
from trainer.run.presets import Recipe, preset
from trainer.run.processes import Processes, started
from trainer.run.run import Origin
from trainer.tasks.answers import Answer, Question, episode_of, prompt_of, writer_of
from trainer.tasks.judging import QUICK
from trainer.tasks.memo import Memo, Outcome, key_of
from trainer.tasks.rows import known_answers, practice
from trainer.tasks.task import Task

WORTH = {
    "right": Outcome(3, "Correct and faster.", 10.0, 8.0, 3.0, "quick", 3),
    "whole": Outcome(1, "Correct and not faster.", 100.0, 0.8, 0.3, "quick", 3),
    "wrong": Outcome(-1, "The outputs differ."),
}
TASKS = practice("cpu")[:2]
RECIPE = replace(preset("long-horizon"), actor_lr=2e-3, critic_lr=4e-3, warm_up=1, reject_k3=None)


def carried_in(path: Path, tasks: Sequence[Task] = TASKS) -> Path:
    """Write a file of what was judged elsewhere: the known answers to tasks; those to one are wrong for the others."""
    memo = Memo(path)
    for task in tasks:
        worth = {
            answer: "wrong" for each in tasks if each.opening == task.opening for answer in known_answers(each).values()
        }
        worth |= {answer: name for name, answer in known_answers(task).items()}
        for answer, name in worth.items():
            memo.keep(key_of(task, task.candidate(answer), "cpu", asdict(QUICK)), task, WORTH[name])
    return path


def write_practised_policy(folder: Path, steps: int = 32) -> Path:
    """Write a policy that imitates the known answers to the tasks, and nothing else."""
    lines = {answer.partition("=")[2] + "\n" for task in TASKS for answer in known_answers(task).values()}
    write_tiny_policy(folder / "random", vocabulary=1024, phrases=sorted(lines))
    with started("cpu") as processes:
        learner = learner_on(processes, folder / "random", ("policy",), replace(RECIPE, actor_lr=4e-3))
        shown = list(_shown(learner))
        for _ in range(steps):
            rft.update(learner, shown)
        assert learner.policy is not None
        learner.policy.save(folder / "policy")
    return folder / "policy"


def learner_on(
    processes: Processes, model: Path, trains: Sequence[str] = ("policy", "critic"), recipe: Recipe = RECIPE
) -> Learner:
    """Load a policy to be trained."""
    return learner_of(Origin(stage="test", recipe=recipe, model=str(model)), processes, trains)


def _shown(learner: Learner) -> list[Episode]:
    policy = learner.policy
    assert policy is not None
    writer = writer_of(policy, 0, 1.0)
    found = []
    for task in TASKS:
        question = Question.plain(task)
        prompt = tuple(prompt_of(policy, question))
        for name, answer in known_answers(task).items():
            ids = policy.tokenizer(answer.partition("=")[2] + "\n", add_special_tokens=False)["input_ids"]
            sampled = Sampled(tuple(ids), (0.0,) * len(ids), truncated=False)
            found.append(episode_of(Answer(question, prompt, sampled, answer), WORTH[name], 1.0, writer))
    return found
