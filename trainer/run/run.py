"""A run's folder: what it began from, a line of numbers for each step, checkpoints; and the loop over its steps.

::

    RUN/
        run.json          stage, recipe, and everything else that the numbers follow from
        metrics.jsonl     a line a step
        checkpoints/      step-000012/ ...
        latest            names the last complete checkpoint

The same command on the same folder goes on from the latest checkpoint, on as many processes as it likes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.store import write_atomically
from sandbox.errors import UsageError
from trainer.run import guards, metrics
from trainer.run.checkpoint import KEPT, Checkpoints
from trainer.run.faults import told
from trainer.run.learner import Learner
from trainer.run.metrics import Metrics, Narration
from trainer.run.presets import Recipe
from trainer.run.processes import Processes

VERSION = 1
HELD_OUT = "held_out_variance"
"""The number that tells which checkpoint is the best, in stages that have it."""
MAY_CHANGE = {"tokens", "entropy_jump", "length_jump", "k3_limit", "variance_patience"}
"""Settings of a recipe that the numbers do not follow from, beyond rounding."""


@dataclass(frozen=True)
class Origin:
    """What a run's numbers follow from; the same for as long as the run goes on.

    Attributes:
        stage: Name of the stage.
        recipe: What it trains by.
        model: Folder of the policy that it begins from.
        critic: Folder of the critic that it begins from; empty for a new one.
        data: Folder of the training set, or what else it learns from.
        data_sha256: Hash of the set: one made anew at the same place is another. Empty where episodes are made as it goes.
        lora: Rank of the adapters; null where all weights are trained.
        seed: Of the order of the data, and of new weights.
    """

    stage: str
    recipe: Recipe
    model: str
    critic: str = ""
    data: str = ""
    data_sha256: str = ""
    lora: int | None = None
    seed: int = 0


class Run:
    """One run of a stage in its folder, begun or gone on with.

    Args:
        folder: Of the run; made where there is none.
        origin: What it begins from; where the run exists, what it did begin from.
        processes: Who takes part.
        every: Steps from one checkpoint to the next.
        kept: How many checkpoints are kept.

    Raises:
        UsageError: The folder holds a run that began from something else.
    """

    def __init__(self, folder: Path, origin: Origin, processes: Processes, *, every: int = 1, kept: int = KEPT) -> None:
        self.folder, self.origin, self.processes = folder, origin, processes
        self.every = every
        self.checkpoints = Checkpoints(folder, processes, kept)
        self.history: list[Metrics] = []
        with processes.together():
            if processes.first:
                folder.mkdir(parents=True, exist_ok=True)
                self._begin()

    @property
    def lines(self) -> Path:
        """The file with the numbers of each step."""
        return self.folder / "metrics.jsonl"

    def resume(self, learner: Learner) -> None:
        """Bring a fresh learner to where the run's latest checkpoint stands, and forget the numbers of later steps.

        An ended run's numbers are all kept: they show why it ended where it did.
        """
        step = self.processes.from_first(self.checkpoints.latest)
        if step is not None:
            learner.restore(self.checkpoints.read(step, learner.tensors()))
        with self.processes.together():
            if self.processes.first:
                self.history = metrics.read(self.lines) if self.ended else metrics.cut(self.lines, learner.step)
        self.history = self.processes.from_first(self.history)

    def train(
        self,
        learner: Learner,
        steps: int,
        once: Callable[[], Metrics],
        enough: Callable[[list[Metrics]], bool] = lambda _: False,
    ) -> None:
        """Take steps until so many are behind the learner, and the last of them is in a checkpoint.

        Args:
            learner: As `resume` left it.
            steps: Of the whole run.
            once: Takes a step and returns its numbers.
            enough: Asked about the numbers of all steps so far; whether the run needs no more of them.

        Raises:
            Stopped: A guard stopped the run, which stands at a checkpoint before the trouble began.
            EnvironmentFault: Memory or disk is used up, or another process ended.
        """
        if learner.step:
            self.say(f"The run goes on after step {learner.step}.")
        with Narration(steps, shown=self.processes.first) as narration, told(self.origin.recipe, self.processes):
            while learner.step < steps and not enough(self.history):
                narration.step(self.record(learner, once(), last=learner.step + 1 >= steps))

    def say(self, text: str) -> None:
        """Tell whoever started the run, once for all processes."""
        if self.processes.first and text:
            print(text, file=sys.stderr)

    def record(self, learner: Learner, numbers: Metrics, *, last: bool = False) -> Metrics:
        """End a step: count it, write its line, ask the guards, and write a checkpoint where one is due.

        Args:
            learner: After the step.
            numbers: Of the step.
            last: Whether a checkpoint is due in any case.

        Returns:
            The line that was written.

        Raises:
            Stopped: A guard stopped the run.
            EnvironmentFault: The disk is full.
        """
        learner.step += 1
        line: Metrics = self.processes.from_first({"step": learner.step, **numbers})
        self.history.append(line)
        with self.processes.together():
            if self.processes.first:
                metrics.write(self.lines, line)
        if found := guards.alarm(self.history, self.origin.recipe):
            self.stop(found)
        if last or learner.step % self.every == 0 or line.get(HELD_OUT) is not None:
            self.save(learner)
        return line

    def save(self, learner: Learner) -> None:
        """Write a checkpoint of the learner as it is.

        The last few are kept, and with them the last that was found healthy and the best on episodes that were held out.
        """
        protected = frozenset({guards.healthy(self.history), metrics.best(self.history, HELD_OUT)})
        self.checkpoints.write(learner.step, learner.tensors(), learner.state(), learner.finish, protected)

    def end(self, step: int, reason: str) -> None:
        """End the run for good at a step that there is a checkpoint of; the same command then does nothing more.

        Args:
            step: Where it ends.
            reason: One sentence on why.
        """
        self.checkpoints.go_back(step)
        with self.processes.together():
            if self.processes.first:
                write_atomically(self.folder / "ended", f"{reason}\n".encode())

    @property
    def ended(self) -> str:
        """Why the run ended for good; empty where it did not."""
        path = self.folder / "ended"
        return path.read_text().strip() if path.exists() else ""

    def stop(self, found: guards.Alarm) -> None:
        """Go back to where the run can be trusted.

        Raises:
            Stopped: Always.
        """
        step = self.checkpoints.go_back(found.trusted)
        stands = f"at step {step}" if step is not None else "where it began: no earlier checkpoint can be trusted"
        raise guards.Stopped(
            f"{found.reason}. The run was stopped and stands {stands}.",
            where=str(self.folder),
            next_step=f"{found.next_step} Begin a new run with --model {self.folder} and another --out.",
        )

    def _begin(self) -> None:
        head = {"version": VERSION, **asdict(self.origin)}
        path = self.folder / "run.json"
        if path.exists() and (odd := _difference(json.loads(path.read_text()), head)):
            raise UsageError(
                f"This folder holds a run that began otherwise: {odd}.",
                where=str(self.folder),
                next_step="Give the options that it began with to go on with it, or another folder for a new run.",
            )
        write_atomically(path, json.dumps(head, indent=1).encode() + b"\n")


def _difference(then: dict[str, Any], now: dict[str, Any]) -> str:
    for name in (name for name in now if name not in MAY_CHANGE):
        if isinstance(now[name], dict) and isinstance(then.get(name), dict):
            if odd := _difference(then[name], now[name]):
                return odd
        elif then.get(name) != now[name]:
            return f"{name} was {then.get(name)!r} and is {now[name]!r} now"
    return ""
