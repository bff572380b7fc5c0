"""One JSON line of numbers a step, and what the terminal shows of them.

| key | what |
|---|---|
| ``step`` | number of the update, from 1; what speaks of the updated policy or critic says so, all else was measured before |
| ``episodes``, ``actions`` | of the batch; ``rejected``: share left out because another policy wrote it |
| ``reward`` | mean over the episodes |
| ``entropy`` | mean over the actions, nats |
| ``explained_variance`` | share of the variance of what this batch earned that the critic explains |
| ``held_out_variance`` | of the updated critic on the episodes that ``value`` holds out; after each pass |
| ``length_clip`` | share of episodes that a limit cut off |
| ``k1``, ``k3`` | estimates of the divergence of the updated policy from the one before, mean over the actions |
| ``clip_fraction``, ``ratio_min``, ``ratio_max`` | of the updated policy's ratios to the one before |
| ``reference_k3`` | divergence of the updated policy from the model without its adapters, where ``kl`` is asked for |
| ``mismatch_k3``, ``importance_cut``, ``effective_share`` | old policy against the one that wrote the episodes |
| ``actor_loss``, ``critic_loss``, ``nll`` | losses |
| ``actor_norm``, ``critic_norm`` | norms of the gradients, before they are cut |
| ``seconds``, ``tokens_per_second``, ``memory_gib`` | of the step; memory: the most that any process held |
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from agent.store import encode, write_atomically

Metrics = Mapping[str, float | None]
"""The numbers of a step by name; null where a step has none."""

SHOWN = (
    "reward",
    "nll",
    "entropy",
    "explained_variance",
    "held_out_variance",
    "critic_loss",
    "k3",
    "tokens_per_second",
)
"""What the terminal shows of a step, where the stage has it."""


def write(path: Path, metrics: Metrics) -> None:
    """Append a step's line, and see it onto the disk."""
    with path.open("ab") as file:
        file.write(encode(dict(metrics)))
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[Metrics]:
    """Return all whole lines; a torn last one is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def cut(path: Path, step: int) -> list[Metrics]:
    """Leave out what came after a step, and return the rest."""
    kept = [metrics for metrics in read(path) if (metrics["step"] or 0) <= step]
    if path.exists():
        write_atomically(path, b"".join(encode(dict(metrics)) for metrics in kept))
    return kept


def best(history: Iterable[Metrics], name: str) -> int:
    """Return the step at which a number was largest, the first of several; 0 where no step has it."""
    found = [(value, -(metrics["step"] or 0)) for metrics in history if (value := metrics.get(name)) is not None]
    return -int(max(found)[1]) if found else 0


class Narration:
    """What a person sees of a run while it goes on: a bar on a terminal, a line a step elsewhere.

    Args:
        total: Steps of the whole run.
        shown: Whether this process is the one that speaks.
        stream: Where to; the standard error stream unless told otherwise.
    """

    def __init__(self, total: int, *, shown: bool = True, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, quiet=not shown)
        self._total = total
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if self._console.is_terminal and shown:
            columns = (TextColumn("step"), MofNCompleteColumn(), BarColumn(20), TimeRemainingColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[numbers]}"), console=self._console)
            self._task = self._bar.add_task("", total=total, numbers="")

    def __enter__(self) -> Narration:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, metrics: Metrics) -> None:
        """Show a step's numbers."""
        numbers = described(metrics, SHOWN)
        if self._bar:
            self._bar.update(self._task, completed=metrics["step"] or 0, numbers=numbers)
        else:
            text = f"step {metrics['step']:.0f} of {self._total}: {numbers}"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def described(metrics: Metrics, names: Iterable[str]) -> str:
    """Return the named numbers in a line, those that the step has."""
    found = ((name, metrics.get(name)) for name in names)
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in found if value is not None)
