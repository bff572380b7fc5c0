"""One run of the recipe, from the start model to its last evaluation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from tests.gpu.learning.results import Results
from trainer import ppo, rft, value
from trainer.data.episode import Episode
from trainer.run.learner import Learner
from trainer.run.options import learner_of
from trainer.run.presets import Recipe, preset
from trainer.run.processes import Processes
from trainer.run.run import Origin
from trainer.tasks.answers import Question
from trainer.tasks.judging import Desk, shares
from trainer.tasks.task import Task
from trainer.warmup import Asking, SingleTurns

Update = Callable[[Learner, Sequence[Episode]], dict[str, float | None]]


class OutOfTime(Exception):
    """The time that was given is over."""


@dataclass(frozen=True)
class Variant:
    """The recipe, or the recipe without a part of it."""

    name: str
    seed: int
    rft: bool = True
    value: bool = True
    reward: str = "judged"

    @property
    def run(self) -> str:
        return f"{self.name}-{self.seed}"


VARIANTS = (
    *(Variant("whole", seed) for seed in range(3)),
    Variant("no-rft", 0, rft=False),
    Variant("no-value", 0, value=False),
    Variant("raw-speedup", 0, reward="speedup"),
)


@dataclass(frozen=True)
class Sizes:
    """How much of everything.

    Attributes:
        steps: Of PPO.
        tasks, each: Asked about in a step, and answers to each.
        collected: Answers to each task of training that fine-tuning and value pretraining are made from.
        every: Steps between evaluations.
        rft_passes, value_passes: Through what was collected.
        part: Episodes of an update of those two.
    """

    steps: int = 30
    tasks: int = 24
    each: int = 16
    collected: int = 32
    every: int = 5
    rft_passes: int = 2
    value_passes: int = 3
    part: int = 64


RECIPE = replace(
    preset("long-horizon"), actor_lr=1e-5, critic_lr=3e-5, warm_up=5, reject_k3=0.05, version_gap=None, tokens=65_536
)


@dataclass
class Experiment:
    """What all runs share.

    Attributes:
        model: Folder of the start model.
        desk: Judges.
        trained, held_out: Tasks.
        results: Where lines go.
        until: When the time is over, as ``time.monotonic()`` has it.
    """

    model: Path
    processes: Processes
    desk: Desk
    trained: Sequence[Task]
    held_out: Sequence[Task]
    results: Results
    until: float
    sizes: Sizes = Sizes()
    recipe: Recipe = RECIPE

    def run(self, variant: Variant) -> None:
        """Go through the stages of a run.

        Raises:
            OutOfTime: Before it came to its end.
        """
        sizes, attempt, began = self.sizes, f"{time.time():.0f}", time.monotonic()
        learner = self._learner(variant)
        asking = Asking(tasks=sizes.tasks, each=sizes.each)
        turns = SingleTurns(learner, self.desk, asking, variant.reward)
        collecting = SingleTurns(learner, self.desk, replace(asking, each=sizes.collected), variant.reward)
        told = {"run": variant.run, "attempt": attempt}
        self._evaluate(turns, told, "start", 0)
        if variant.rft:
            good = [each for each in collecting.collected(self.trained) if (each.reward or 0) > 0]
            print(f"{variant.run}: fine-tuning on {len(good)} answers", flush=True)
            self._learn(learner, good, rft.update, sizes.rft_passes, {**told, "stage": "rft"})
            self._evaluate(turns, told, "rft", 0)
        if variant.value:
            episodes = collecting.collected(self.trained)
            self._learn(learner, episodes, value.update, sizes.value_passes, {**told, "stage": "value"})
        for step in range(1, sizes.steps + 1):
            self._check_time()
            learner.step += 1
            numbers = turns.step(self.trained, ppo.update)
            self.results.add("step", **told, **{**numbers, "step": step})
            print(f"{variant.run} step {step}: {_shown(numbers)}", flush=True)
            if step % sizes.every == 0 or step == sizes.steps:
                self._evaluate(turns, told, "ppo", step)
        self.results.add("done", **told, seconds=time.monotonic() - began)

    def _learner(self, variant: Variant) -> Learner:
        recipe = self.recipe if variant.reward == "judged" else replace(self.recipe, critic_head="linear")
        origin = Origin(stage="learning", recipe=recipe, model=str(self.model), seed=variant.seed)
        return learner_of(origin, self.processes, ("policy", "critic"))

    def _learn(
        self, learner: Learner, episodes: Sequence[Episode], update: Update, passes: int, told: dict[str, str]
    ) -> None:
        for _ in range(passes):
            for part in _parts(learner, episodes, self.sizes.part):
                self._check_time()
                self.results.add("learnt", **told, **update(learner, part))

    def _evaluate(self, turns: SingleTurns, told: dict[str, str], stage: str, step: int) -> None:
        """Have the policy answer all tasks that are held out."""
        self._check_time()
        answers, outcomes = turns.answered([Question.plain(task) for task in self.held_out])
        rewards = [outcome.reward or 0 for outcome in outcomes]
        each = turns.asking.each
        of_tasks = [rewards[place : place + each] for place in range(0, len(rewards), each)]
        line = self.results.add(
            "evaluation",
            **told,
            stage=stage,
            step=step,
            held_out_reward=fmean(rewards),
            best_of=fmean(max(found) for found in of_tasks),
            by_task={task.name: fmean(found) for task, found in zip(self.held_out, of_tasks, strict=True)},
            **shares(outcomes),
        )
        print(f"{told['run']} {stage} {step}: {line['held_out_reward']:+.3f} on held-out tasks", flush=True)
        for answer in answers[::each]:
            print(f"    {answer.question.task.name}: {answer.text.strip()!r}", flush=True)
        if stage == "start" and not any(known["name"] == f"best of {each}" for known in self.results.lines("baseline")):
            best = {"held_out_reward": line["best_of"], "what": "answers of the start model, task by task"}
            self.results.add("baseline", name=f"best of {each}", **best)

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime


def _parts(learner: Learner, episodes: Sequence[Episode], size: int) -> Iterator[list[Episode]]:
    order = learner.random.permutation(len(episodes)).tolist()
    count = math.ceil(len(order) / size)
    for number in range(count):
        yield [episodes[place] for place in order[number::count]]


def _shown(numbers: dict[str, float | None]) -> str:
    names = (
        "reward",
        "judged_reward",
        "wrong",
        "entropy",
        "explained_variance",
        "k3",
        "judged",
        "rollout_seconds",
        "seconds",
    )
    return ", ".join(f"{name} {found:.3g}" for name in names if (found := numbers.get(name)) is not None)
