"""Contrast: the policy is shown earlier answers with their scores, and learns by comparing answers to one question (CUDA-L1).

For each task a bank keeps what was right so far, by speed-up. A question tells two earlier answers of different buckets of it
with their scores, says to find out why one is faster, and asks for a faster one (arXiv 2507.14111, section 3). Answers to one
question are a group: the advantage of each is its reward less the group's mean, over the group's deviation. The reward is the
speed-up over eager, 0 where the answer is wrong, smoothed by what was seen so far and clipped to +-1.5, so that neither a
lucky measurement nor a trick pulls the policy after it. The paper's first two stages, fine-tuning on verified code and on
the policy's own successes, are runs of `rft` on sets that `warmup --collect` or `ingest` made. Here no critic is trained.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from agent.store import write_atomically
from sandbox.errors import ExitCode
from sandbox.machine.devices import resolve_device
from trainer import ppo
from trainer.data.episode import Episode
from trainer.data.exclusion import excluded
from trainer.maths.group import SpeedupReward, group_advantages
from trainer.run.learner import Learner
from trainer.run.options import opened, part_of
from trainer.run.run import Run
from trainer.tasks.answers import Answer, Question
from trainer.tasks.judging import Desk, shares
from trainer.tasks.memo import Outcome
from trainer.tasks.task import Message, Task
from trainer.warmup import STEPS, Asking, SingleTurns, add_task_options, asking_of, desk_of, tasks_of

SHOWN = 2
"""Earlier answers that a question tells, each of another bucket."""
BUCKET = 1.1
"""Speed-ups that differ by less than this factor may share a bucket."""
SHARPNESS = 1.0
"""Temperature of the draw among buckets, in units of speed-up: the lower, the more often the fastest are shown."""
_WHOLE = """

First compare the two under the heading "## Performance Analysis": why is one faster, what limits it, which technique does neither
use? Then say under "## Algorithm Design" what you will do, and write the two blocks under "## Code Implementation". What answers
otherwise than the reference scores 0; nothing may be kept from one call to the next, and sizes stay as they are."""


@dataclass(frozen=True)
class Earlier:
    """A right answer of an earlier step, and how many times as fast as eager it is."""

    text: str
    score: float


@dataclass
class Bank:
    """What was answered so far: right answers by task, and the statistics that scores are smoothed by.

    Attributes:
        right: By the task's name, each text once.
        seen: Of all scores.
    """

    right: dict[str, dict[str, Earlier]] = field(default_factory=dict)
    seen: SpeedupReward = field(default_factory=SpeedupReward)

    def shown(self, task: Task, draw: np.random.Generator) -> list[Earlier]:
        """Draw earlier answers of different buckets, the slowest first; none where there are too few buckets.

        Buckets are drawn with weights exp((mean of the bucket - mean of all) / temperature), answers of a bucket alike.
        """
        buckets: dict[int, list[Earlier]] = {}
        for earlier in self.right.get(task.name, {}).values():
            buckets.setdefault(math.floor(math.log(earlier.score) / math.log(BUCKET)), []).append(earlier)
        if len(buckets) < SHOWN:
            return []
        means = np.array([np.mean([earlier.score for earlier in bucket]) for bucket in buckets.values()])
        weights = np.exp((means - means.max()) / SHARPNESS) + np.finfo(float).tiny
        chosen = draw.choice(len(buckets), SHOWN, replace=False, p=weights / weights.sum())
        of_each = [list(buckets.values())[number] for number in chosen]
        found = [bucket[int(draw.integers(len(bucket)))] for bucket in of_each]
        return sorted(found, key=lambda earlier: earlier.score)

    def take(self, answers: Sequence[Answer], outcomes: Sequence[Outcome], scores: Sequence[float]) -> None:
        """Take in a step's answers."""
        for answer, outcome, score in zip(answers, outcomes, scores, strict=True):
            if outcome.reward is not None and outcome.reward > 0 and score > 0:
                known = self.right.setdefault(answer.question.task.name, {})
                known.setdefault(answer.text, Earlier(answer.text, score))
        self.seen = self.seen.seen(np.array(scores))

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        right = {name: [asdict(each) for each in known.values()] for name, known in self.right.items()}
        write_atomically(path, json.dumps({"seen": asdict(self.seen), "right": right}).encode())

    @classmethod
    def read(cls, path: Path) -> Bank:
        """Read what ``write`` wrote; an empty one where there is nothing."""
        if not path.exists():
            return cls()
        told = json.loads(path.read_text())
        right = {name: {each["text"]: Earlier(**each) for each in known} for name, known in told["right"].items()}
        return cls(right, SpeedupReward(**told["seen"]))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    add_task_options(parser)


def run(options: argparse.Namespace) -> int:
    """Train by contrast, and return the exit code."""
    tasks = tasks_of(options.tasks, resolve_device(options.device), excluded(options.exclude))
    with (
        opened(options, "contrast", ["policy"], data=options.tasks, whiten=False, variance_patience=None) as (
            run_,
            learner,
        ),
        desk_of(options) as desk,
    ):
        contrast = Contrast(run_, learner, desk, asking_of(options))
        run_.train(learner, options.steps or STEPS, lambda: contrast.step(tasks))
    sys.stderr.write(f"The policy is in {part_of(options.out, 'policy')}.\n")
    return ExitCode.OK


class Contrast:
    """Takes the steps of one run; its bank lies beside the checkpoints, one for each step that the run may go back to.

    Args:
        run: Its folder.
        learner: Holds the policy.
        desk: Judges.
        asking: How the policy is asked.
    """

    def __init__(self, run: Run, learner: Learner, desk: Desk, asking: Asking) -> None:
        self._folder = run.folder / "banks"
        self._folder.mkdir(exist_ok=True)
        self._learner, self._turns = learner, SingleTurns(learner, desk, asking)
        self.bank = Bank.read(self._file(learner.step))

    def step(self, tasks: Sequence[Task]) -> dict[str, float | None]:
        """Ask about some of the tasks, each with two earlier answers to it, and learn from how the answers compare."""
        began = time.monotonic()
        questions = [
            contrasted(task, self.bank.shown(task, self._learner.random)) for task in self._turns.chosen(tasks)
        ]
        answers, outcomes = self._turns.answered(questions)
        seconds = time.monotonic() - began
        scores = [score_of(outcome) for outcome in outcomes]
        self.bank.take(answers, outcomes, scores)
        rewards = self.bank.seen.rewards(np.array(scores))
        groups = np.array([questions.index(answer.question) for answer in answers])
        episodes = [
            replace(episode, reward=float(reward))
            for episode, reward in zip(self._turns.episodes(answers, outcomes), rewards, strict=True)
        ]
        numbers = update(self._learner, episodes, group_advantages(rewards, groups))
        self.bank.write(self._file(self._learner.step + 1))
        shown = float(np.mean([question.messages is not question.task.messages for question in questions]))
        more = {"score": float(np.mean(scores)), "contrasted": shown, "rollout_seconds": seconds}
        return {**numbers, **shares(outcomes), **more}

    def _file(self, step: int) -> Path:
        return self._folder / f"step-{step:06d}.json"


def update(learner: Learner, episodes: Sequence[Episode], advantages: np.ndarray) -> dict[str, float | None]:
    """Take one step of the policy, and return its numbers.

    Args:
        learner: With a policy.
        episodes: With their rewards.
        advantages: Of each episode; all its actions have it.
    """
    batch = learner.batch(episodes)
    with learner.measured(batch) as numbers:
        old, entropy = learner.logprobs(batch)
        numbers["entropy"] = float(entropy.mean())
        kept, importance = ppo.corrected(batch, old, learner.recipe, learner.version, numbers)
        reference = learner.reference_logprobs(batch) if learner.recipe.kl else None
        signal = ppo.Signal(old, batch.spread(torch.from_numpy(advantages)).float(), importance, reference)
        ppo.improve(learner, batch, signal, kept, numbers)
        ppo.measure_move(learner, batch, signal, numbers)
    return numbers


def score_of(outcome: Outcome) -> float:
    """Return the speed-up over eager in steps of a hundredth, rounded towards 1; 0 for a wrong answer."""
    if outcome.reward is None or outcome.reward < 0:
        return 0.0
    ratio = 100 * (outcome.over_eager or 1.0)
    return (math.floor(ratio) if ratio > 100 else math.ceil(ratio)) / 100


def contrasted(task: Task, earlier: Sequence[Earlier]) -> Question:
    """Return a task's question with earlier answers and their scores; the plain one without any."""
    if not earlier:
        return Question.plain(task)
    last = task.messages[-1]
    if task.opening:
        told = "\n".join(f"// {each.score:.2f} times as fast as PyTorch: {each.text.strip()}" for each in earlier)
        content = f"{last['content']}\n{told}"
    else:
        told = "\n".join(f"Score {each.score:.2f}:\n{each.text.strip()}" for each in earlier)
        heading = "Earlier answers, with how many times as fast as the reference each is:"
        content = f"{last['content']}\n{heading}\n{told}\nWrite one that scores more.{_WHOLE}"
    changed: Message = {**last, "content": content}
    return Question(task, (*task.messages[:-1], changed))
