"""One run of the recipe, from the start model to its last evaluation."""

from __future__ import annotations

import math
import time
from collections import defaultdict
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
from trainer.tasks.judging import Judges, shares
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
        steps: Of PPO at most; they end when the time does.
        tasks, each: Asked about in a step, and answers to each.
        collected: Answers to each task of training that fine-tuning and value pretraining are made from.
        every: Steps between evaluations.
        shown: Answers to each task that is held out, in an evaluation.
        rft_passes, value_passes: Through what was collected.
        part: Episodes of an update of those two.
    """

    steps: int = 32
    tasks: int = 24
    each: int = 8
    collected: int = 16
    every: int = 4
    shown: int = 12
    rft_passes: int = 3
    value_passes: int = 4
    part: int = 16


LAST = 25.0
"""Seconds that are left for the last evaluation when the steps of PPO end."""
EVALUATION_SEED = 20_260_224
"""Of every evaluation: what differs between two of them is the policy, and the start model is judged once."""
RECIPE = replace(
    preset("long-horizon"), actor_lr=2e-5, critic_lr=5e-5, warm_up=3, reject_k3=0.05, version_gap=None, tokens=65_536
)
FINE_TUNING = replace(RECIPE, actor_lr=5e-5)


@dataclass
class Experiment:
    """What all runs share.

    Attributes:
        model: Folder of the start model.
        scratch: For the policy between two stages.
        desk: Judges.
        results: Where lines go.
        until: When the time is over, as ``time.monotonic()`` has it.
    """

    model: Path
    scratch: Path
    processes: Processes
    desk: Judges
    results: Results
    until: float
    sizes: Sizes = Sizes()
    trained: Sequence[Task] = ()
    held_out: Sequence[Task] = ()

    def run(self, variant: Variant, tasks: Callable[[], Sequence[Sequence[Task]]]) -> None:
        """Go through the stages of a run.

        Args:
            variant: Which.
            tasks: Waits for them, while the model is loaded already; those of training, and those that are held out.

        Raises:
            OutOfTime: Before it came to its end.
        """
        began, told = time.monotonic(), {"run": variant.run, "attempt": f"{time.time():.0f}"}
        stages = ("policy",) if variant.rft else ("policy", "critic")
        learner = self._learner(variant, self.model, FINE_TUNING if variant.rft else RECIPE, stages)
        self.trained, self.held_out = tasks()
        self._evaluate(learner, variant, told, "start", 0)
        if variant.rft:
            model = self._fine_tuned(learner, variant, told)
            learner = self._learner(variant, model, RECIPE, ("policy", "critic"))
        turns = self._turns(learner, variant, self.sizes.each)
        if variant.value:
            episodes = self._collected(learner, variant)
            self._learn(learner, episodes, value.update, self.sizes.value_passes, {**told, "stage": "value"})
        self._check_time()
        while learner.step < self.sizes.steps and time.monotonic() < self.until - LAST:
            learner.step += 1
            numbers = turns.step(self.trained, ppo.update)
            self.results.add("step", **told, **{**numbers, "step": learner.step})
            print(f"{variant.run} step {learner.step}: {_shown(numbers)}", flush=True)
            if learner.step % self.sizes.every == 0:
                self._evaluate(learner, variant, told, "ppo", learner.step)
        if learner.step % self.sizes.every:
            self._evaluate(learner, variant, told, "ppo", learner.step)
        self.results.add("done", **told, seconds=time.monotonic() - began)

    def _fine_tuned(self, learner: Learner, variant: Variant, told: dict[str, str]) -> Path:
        """Have a policy imitate those of its answers that earn something, and return the folder of what it became."""
        good = [each for each in self._collected(learner, variant) if (each.reward or 0) > 0]
        print(f"{variant.run}: fine-tuning on {len(good)} answers", flush=True)
        self._learn(learner, good, rft.update, self.sizes.rft_passes, {**told, "stage": "rft"})
        self._evaluate(learner, variant, told, "rft", 0)
        assert learner.policy is not None
        folder = self.scratch / variant.run
        learner.policy.save(folder)
        return folder

    def _learner(self, variant: Variant, model: Path, recipe: Recipe, trains: Sequence[str]) -> Learner:
        recipe = recipe if variant.reward == "judged" else replace(recipe, critic_head="linear")
        origin = Origin(stage="learning", recipe=recipe, model=str(model), seed=variant.seed)
        return learner_of(origin, self.processes, trains)

    def _turns(self, learner: Learner, variant: Variant, each: int) -> SingleTurns:
        asking = Asking(tasks=self.sizes.tasks, each=each, batch=512)
        return SingleTurns(learner, self.desk, asking, variant.reward)

    def _collected(self, learner: Learner, variant: Variant) -> list[Episode]:
        return self._turns(learner, variant, self.sizes.collected).collected(self.trained)

    def _learn(
        self, learner: Learner, episodes: Sequence[Episode], update: Update, passes: int, told: dict[str, str]
    ) -> None:
        for _ in range(passes):
            for part in _parts(learner, episodes, self.sizes.part):
                self._check_time()
                self.results.add("learnt", **told, **update(learner, part))

    def _evaluate(self, learner: Learner, variant: Variant, told: dict[str, str], stage: str, step: int) -> None:
        """Have the policy answer all tasks that are held out."""
        self._check_time()
        turns = self._turns(learner, variant, self.sizes.shown)
        answers, outcomes = turns.answered([Question.plain(task) for task in self.held_out], EVALUATION_SEED)
        rewards, first = defaultdict(list), {}
        for answer, outcome in zip(answers, outcomes, strict=True):
            name = answer.question.task.name
            rewards[name].append(outcome.reward or 0)
            first.setdefault(name, answer.text.strip())
        line = self.results.add(
            "evaluation",
            **told,
            stage=stage,
            step=step,
            held_out_reward=fmean(fmean(found) for found in rewards.values()),
            best_of=fmean(max(found) for found in rewards.values()),
            by_task={name: fmean(found) for name, found in rewards.items()},
            answers=first,
            **shares(outcomes),
        )
        print(f"{variant.run} {stage} {step}: {line['held_out_reward']:+.3f} on held-out tasks", flush=True)
        if stage == "start":
            name, what = f"best of {self.sizes.shown}", "answers of the start model, task by task"
            self.results.add_baseline(name, line["best_of"], what)

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime


def _parts(learner: Learner, episodes: Sequence[Episode], size: int) -> Iterator[list[Episode]]:
    order = learner.random.permutation(len(episodes)).tolist()
    count = math.ceil(len(order) / size)
    for number in range(count):
        yield [episodes[place] for place in order[number::count]]


def _shown(numbers: dict[str, float | None]) -> str:
    names = [
        "reward",
        "judged_reward",
        "wrong",
        "entropy",
        "explained_variance",
        "k3",
        "judged",
        "rollout_seconds",
        "seconds",
    ]
    return ", ".join(f"{name} {found:.3g}" for name in names if (found := numbers.get(name)) is not None)
