"""What stops a run before it ruins its policy, and how far back it goes.

The paper names three signs of a collapse that begins: the entropy jumps, the critic explains nothing, and ever more episodes
run into a limit. Added to them are a step that moves the policy too far, and numbers that are none. What is measured at
a step before its update speaks of the weights that the step before left behind, so that is where trust ends.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.errors import ExitCode, WarpsmithError
from trainer.run.metrics import Metrics
from trainer.run.presets import Recipe

WINDOW = 8
"""Steps that a jump is measured against."""
FEWEST = 3
"""Steps before there is anything to measure a jump against."""


class Stopped(WarpsmithError):
    """A guard stopped the run; its latest checkpoint is the last one that can be trusted."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True)
class Alarm:
    """Why a run must not go on.

    Attributes:
        reason: One sentence with the numbers.
        trusted: The last step whose weights are not in question.
        next_step: What to change.
    """

    reason: str
    trusted: int
    next_step: str


def alarm(history: Sequence[Metrics], recipe: Recipe) -> Alarm | None:
    """Return what is wrong with the last step of a run, if anything is.

    Args:
        history: The metrics of the run's steps, in order.
        recipe: Whose limits apply.
    """
    checks = (_entropy, _length, _divergence, _variance)
    return next((found for check in checks if (found := check(history, recipe))), None)


def healthy(history: Sequence[Metrics]) -> int:
    """Return the newest step whose weights a later step has measured and found a critic that explains something."""
    steps = [metrics for metrics in history if (metrics.get("explained_variance") or 0.0) > 0]
    return int(steps[-1]["step"] or 1) - 1 if steps else 0


def _entropy(history: Sequence[Metrics], recipe: Recipe) -> Alarm | None:
    now, before = _now_and_before(history, "entropy")
    if recipe.entropy_jump is None or now is None or before is None or now <= recipe.entropy_jump * before + 0.1:
        return None
    return Alarm(
        f"The entropy jumped to {now:.3g} from about {before:.3g}",
        trusted=_step(history) - 2,
        next_step="Fine-tune with rft first, lower actor_lr, or raise entropy_jump if this was expected.",
    )


def _length(history: Sequence[Metrics], recipe: Recipe) -> Alarm | None:
    now, before = _now_and_before(history, "length_clip")
    if recipe.length_jump is None or now is None or before is None:
        return None
    episodes = history[-1].get("episodes") or 1.0
    chance = max(before, 1 / episodes)
    noise = 2 * (chance * (1 - chance) / episodes) ** 0.5
    if now <= before + recipe.length_jump + noise:
        return None
    return Alarm(
        f"{now:.0%} of the episodes ran into a limit, against about {before:.0%} before",
        trusted=_step(history) - 2,
        next_step="Pretrain the critic with value first, lower actor_lr, or allow longer episodes.",
    )


def _divergence(history: Sequence[Metrics], recipe: Recipe) -> Alarm | None:
    now = history[-1].get("k3")
    if recipe.k3_limit is None or now is None or now <= recipe.k3_limit:
        return None
    return Alarm(
        f"One step moved the policy by a mean k3 of {now:.3g}, more than {recipe.k3_limit:g}",
        trusted=_step(history) - 1,
        next_step="Lower actor_lr, use larger batches, or raise k3_limit.",
    )


def _variance(history: Sequence[Metrics], recipe: Recipe) -> Alarm | None:
    patience = recipe.variance_patience
    if patience is None or len(history) < patience:
        return None
    values = [metrics.get("explained_variance") for metrics in history[-patience:]]
    if not all(value is not None and value < 0 for value in values):
        return None
    return Alarm(
        f"For {patience} steps the critic explained less than nothing (explained variance {values[-1]:.3g})",
        trusted=_step(history) - patience - 1,
        next_step="Pretrain the critic with value, or raise critic_updates or variance_patience.",
    )


def _now_and_before(history: Sequence[Metrics], name: str) -> tuple[float | None, float | None]:
    values = [value for metrics in history[-WINDOW - 1 :] if (value := metrics.get(name)) is not None]
    if len(values) <= FEWEST:
        return None, None
    return values[-1], statistics.median(values[:-1])


def _step(history: Sequence[Metrics]) -> int:
    return int(history[-1]["step"] or 0)
