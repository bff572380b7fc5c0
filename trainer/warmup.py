"""Warm-up: single-turn PPO on the judge's reward, before there are sessions worth learning from.

Each step asks the policy about tasks, several times about each; every distinct answer is judged for real, once ever; and
policy and critic take one step of PPO (CUDA Agent, arXiv 2602.24286, section 3.3, stage 1; context 32,768). Tasks are a
folder of KernelBench files, whose answer is a whole candidate, or `practice`: kernels with one line missing, which small
models can act in. On one device generating, judging and learning alternate. The same command on the same folder goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.settings import load_settings
from sandbox.counts import amount, count
from sandbox.errors import EnvironmentFault, ExitCode
from sandbox.isolation import best_isolation
from sandbox.machine.devices import resolve_device
from trainer import ppo
from trainer.data.dataset import write_set
from trainer.data.episode import Episode
from trainer.data.exclusion import NOTHING, Excluded, excluded
from trainer.data.exclusion import add_option as add_exclude_option
from trainer.policy.model import PolicyModel
from trainer.rollout.turns import DeviceTurns
from trainer.run.learner import Learner
from trainer.run.options import add_run_options, opened, part_of
from trainer.tasks.answers import CONTEXT, REWARDS, Answer, Question, ask, episode_of, writer_of
from trainer.tasks.judging import Desk, Judges, shares
from trainer.tasks.memo import Memo, Outcome
from trainer.tasks.rows import practice
from trainer.tasks.task import Task
from trainer.tasks.whole import whole_tasks

PRACTICE = "practice"
STEPS = 40


@dataclass(frozen=True)
class Asking:
    """How the policy is asked.

    Attributes:
        tasks: What about in a step, at most; drawn anew for each.
        each: Answers to each.
        temperature: Of sampling.
        context: Tokens of prompt and answer together at most.
        batch: Answers written at once.
    """

    tasks: int = 24
    each: int = 16
    temperature: float = 1.0
    context: int = CONTEXT
    batch: int = 256


class SingleTurns:
    """A policy's single turns: questions are asked, and their answers judged.

    Args:
        learner: Holds the policy.
        desk: Judges.
        asking: How the policy is asked.
        reward: What an outcome earns.
    """

    def __init__(self, learner: Learner, desk: Judges, asking: Asking, reward: str = "judged") -> None:
        self.learner, self.desk, self.asking = learner, desk, asking
        self._reward = REWARDS[reward]
        self._turns = DeviceTurns(desk.device, "single answers", lambda: None)

    @property
    def policy(self) -> PolicyModel:
        """The policy that answers."""
        assert self.learner.policy is not None  # both stages open one
        return self.learner.policy

    def chosen(self, tasks: Sequence[Task]) -> list[Task]:
        """Draw the tasks of a step."""
        places = self.learner.random.permutation(len(tasks))[: self.asking.tasks]
        return [tasks[place] for place in places]

    def answered(self, questions: Sequence[Question], seed: int | None = None) -> tuple[list[Answer], list[Outcome]]:
        """Have each question answered as often as it is to be, and every answer judged.

        Args:
            questions: What is asked.
            seed: Decides the answers; drawn by the learner if absent.

        Returns:
            The answers and their outcomes; what the machine left no verdict on is not among them.

        Raises:
            EnvironmentFault: It left none on any.
        """
        seed = int(self.learner.random.integers(2**31)) if seed is None else seed
        with self._turns.turn("writing answers"):
            answers = ask(
                self.policy,
                [question for question in questions for _ in range(self.asking.each)],
                temperature=self.asking.temperature,
                seed=seed,
                context=self.asking.context,
                batch=self.asking.batch,
            )
        outcomes = self.desk.judge([(answer.question.task, answer.text) for answer in answers])
        known = [place for place, outcome in enumerate(outcomes) if outcome.reward is not None]
        if not known:
            raise EnvironmentFault(
                f"None of {len(outcomes)} answers could be judged: {outcomes[0].reason}",
                next_step="Let nothing else use the device, and go on with the same command.",
            )
        return [answers[place] for place in known], [outcomes[place] for place in known]

    def episodes(self, answers: Sequence[Answer], outcomes: Sequence[Outcome]) -> list[Episode]:
        """Return answers as episodes of the policy as it is now."""
        writer = writer_of(self.policy, self.learner.version, self.asking.temperature)
        return [
            episode_of(answer, outcome, self._reward(outcome), writer)
            for answer, outcome in zip(answers, outcomes, strict=True)
        ]

    def step(
        self, tasks: Sequence[Task], update: Callable[[Learner, Sequence[Episode]], dict[str, float | None]]
    ) -> dict[str, float | None]:
        """Ask about some of the tasks, and take a step of training on what the answers earned."""
        began, judged = time.monotonic(), self.desk.judged
        answers, outcomes = self.answered([Question.plain(task) for task in self.chosen(tasks)])
        seconds = time.monotonic() - began
        with self._turns.turn("learning"):
            numbers = update(self.learner, self.episodes(answers, outcomes))
        mean = float(np.mean([outcome.reward or 0 for outcome in outcomes]))
        more = {"judged_reward": mean, "judged": self.desk.judged - judged, "rollout_seconds": seconds}
        return {**numbers, **shares(outcomes), **more}

    def collected(self, tasks: Sequence[Task]) -> list[Episode]:
        """Return judged answers to all tasks, for other stages."""
        answers, outcomes = self.answered([Question.plain(task) for task in tasks])
        return self.episodes(answers, outcomes)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    add_task_options(parser)
    parser.add_argument(
        "--critic", help="folder of the critic to begin from, or of a run of value (default: that of --model)"
    )
    parser.add_argument(
        "--reward", choices=REWARDS, default="judged", help="what an answer earns (default: %(default)s)"
    )
    parser.add_argument(
        "--collect", type=Path, metavar="SET", help="at the end, write judged answers to all tasks as a training set"
    )


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Add what the stages that make their own single turns share."""
    parser.add_argument("tasks", metavar="TASKS", help=f"a folder of KernelBench files, or {PRACTICE}")
    add_exclude_option(parser)
    add_run_options(parser, steps=str(STEPS))
    group = parser.add_argument_group("answers")
    group.add_argument("--tasks-a-step", type=count, default=Asking.tasks, metavar="N", help="default: %(default)s")
    group.add_argument("--answers", type=count, default=Asking.each, metavar="N", help="to each (default: %(default)s)")
    group.add_argument("--temperature", type=amount, default=1.0, help="of sampling (default: %(default)s)")
    group.add_argument(
        "--context", type=count, default=CONTEXT, metavar="N", help="tokens of prompt and answer (default: %(default)s)"
    )
    group.add_argument("--batch", type=count, default=256, metavar="N", help="answers at once (default: %(default)s)")
    group.add_argument("--memo", type=Path, metavar="FILE", help="what was judged before (default: in the cache)")
    group.add_argument("--judges", type=count, metavar="N", help="at work at once (default: one for each CPU)")


def run(options: argparse.Namespace) -> int:
    """Warm up, and return the exit code."""
    tasks = tasks_of(options.tasks, resolve_device(options.device), excluded(options.exclude))
    with (
        opened(options, "warmup", ["policy", "critic"], data=options.tasks) as (run_, learner),
        desk_of(options) as desk,
    ):
        turns = SingleTurns(learner, desk, asking_of(options), options.reward)
        run_.train(learner, options.steps or STEPS, lambda: turns.step(tasks, ppo.update))
        if options.collect:
            episodes = turns.collected(tasks)
            hashes = turns.policy.hashes
            head = {"made_by": "warmup", "tasks": options.tasks, "tokenizer_sha256": hashes.tokenizer_sha256}
            write_set(options.collect, episodes, {**head, "chat_template_sha256": hashes.chat_template_sha256})
    sys.stderr.write(f"The policy is in {part_of(options.out, 'policy')}.\n")
    return ExitCode.OK


def tasks_of(named: str, device: str, kept_out: Excluded = NOTHING) -> list[Task]:
    """Return the tasks that an option names: ``practice``, or a folder of KernelBench files, but for those kept out.

    Raises:
        UsageError: There is no such folder, or no task in it.
    """
    return practice(device) if named == PRACTICE else whole_tasks(Path(named), device, kept_out)


def asking_of(options: argparse.Namespace) -> Asking:
    """Return how the options want the policy to be asked."""
    return Asking(options.tasks_a_step, options.answers, options.temperature, options.context, options.batch)


@contextlib.contextmanager
def desk_of(options: argparse.Namespace) -> Iterator[Desk]:
    """Open the desk that the options ask for."""
    settings = load_settings({})
    memo = Memo(options.memo or settings.cache / "single-turns" / "judged.jsonl")
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-desk-") as scratch,
        Desk(
            resolve_device(options.device),
            isolation=best_isolation(settings.isolation or None),
            cache=settings.cache,
            scratch=Path(scratch),
            memo=memo,
            at_once=options.judges,
        ) as desk,
    ):
        yield desk
