"""Recipes: every number a stage trains by, in two presets.

``cuda-agent`` is what the paper states (arXiv 2602.24286, sections 3.2 to 4.3) and, where it states nothing, the plainest
choice. ``long-horizon`` changes what later work found wanting over tens of thousands of tokens: with lambda 0.95 the final
reward has weight 0.006 a hundred tokens before the end, and none a thousand tokens before it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sandbox.errors import UsageError


@dataclass(frozen=True)
class Recipe:
    """What a stage trains by; the defaults are those of the paper.

    Attributes:
        name: Of the preset.
        gamma: Discount of a token.
        lam_actor: Lambda of the actor's advantages; null for ``1 - 1/(alpha T)`` over the T actions of an episode.
        alpha: The horizon as a share of the episode, where ``lam_actor`` is null.
        lam_critic: Lambda of the critic's targets; 1 is Monte-Carlo.
        policy_loss: ``clip`` bounds the ratio; ``dppo`` bounds the change of the probability (arXiv 2602.04879).
        clip_low, clip_high: How far the ratio may leave 1 downwards and upwards before its gradient ends.
        dual_clip: Bound on the loss of a token with a negative advantage, as a multiple of it; null for none.
        dppo_bound: How far ``dppo`` lets a probability move.
        averaging: ``episode``: each episode's mean counts the same (the paper's 1/T); ``token``: each token does.
        whiten: Whether advantages are shifted and scaled to mean 0 and variance 1 over the whole batch.
        critic_head: ``linear``, or ``bounded`` to the range of rewards by an arctangent.
        value_clip: How far a value may leave the old one before its gradient ends; null for none.
        critic_updates: Updates of the critic for each of the actor's batches.
        baseline_fallback: Whether the mean reward of the batch replaces a critic that explains nothing.
        actor_lr, critic_lr: Learning rates once warm.
        warm_up: Updates over which the learning rate rises in a straight line.
        grad_clip: Largest norm of a gradient.
        importance: Bound of the importance weights that correct for stored log-probabilities; null for no correction.
        reject_k3: Mean k3 to the policy that wrote it, past which an episode is left out; null for none.
        version_gap: By how many updates an episode may be older than the policy; null for any.
        nll: Weight of the log-likelihood of episodes that earned something, added to the actor's loss.
        kl: Weight of the divergence from the model without its adapters, added to the actor's loss; needs adapters.
        epochs, minibatches: How often the actor goes through a batch, and in how many parts.
        batch: Episodes a step; a smaller set is one batch.
        tokens: Most tokens that go through the model at once; a longer segment goes alone.
        entropy_jump: The run stops when the entropy is more than this multiple of its recent median.
        length_jump: The run stops when the share of episodes cut off by a limit rises by more than this.
        k3_limit: The run stops when one step moves the policy by more than this mean k3.
        variance_patience: The run stops when the critic explains nothing for so many steps on end.
    """

    name: str = "cuda-agent"
    gamma: float = 1.0
    lam_actor: float | None = 0.95
    alpha: float = 0.4
    lam_critic: float = 0.95
    policy_loss: Literal["clip", "dppo"] = "clip"
    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None
    dppo_bound: float = 0.2
    averaging: Literal["episode", "token"] = "episode"
    whiten: bool = False
    critic_head: Literal["linear", "bounded"] = "linear"
    value_clip: float | None = None
    critic_updates: int = 1
    baseline_fallback: bool = False
    actor_lr: float = 3e-6
    critic_lr: float = 6e-6
    warm_up: int = 10
    grad_clip: float = 1.0
    importance: float | None = None
    reject_k3: float | None = None
    version_gap: int | None = None
    nll: float = 0.0
    kl: float = 0.0
    epochs: int = 1
    minibatches: int = 1
    batch: int = 1024
    tokens: int = 32768
    entropy_jump: float | None = 1.5
    length_jump: float | None = 0.3
    k3_limit: float | None = 0.1
    variance_patience: int | None = 10


PRESETS = {
    "cuda-agent": Recipe(),
    "long-horizon": Recipe(
        name="long-horizon",
        lam_actor=None,
        lam_critic=1.0,
        dual_clip=3.0,
        averaging="token",
        whiten=True,
        critic_head="bounded",
        critic_updates=2,
        baseline_fallback=True,
        importance=2.0,
        reject_k3=0.01,
        version_gap=4,
        batch=32,
    ),
}


_COUNTS = {"batch", "tokens", "epochs", "minibatches", "critic_updates", "variance_patience"}
_POSITIVE = {"alpha", "grad_clip", "importance"}
_SHARES = {"gamma", "lam_actor", "lam_critic"}


def preset(name: str) -> Recipe:
    """Return a preset by its name.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in PRESETS:
        raise UsageError(f"There is no preset {name!r}.", next_step=f"Choose one of: {', '.join(PRESETS)}.")
    return PRESETS[name]


def with_lora(recipe: Recipe) -> Recipe:
    """Return the recipe for low-rank adapters, which are trained at ten times the learning rates."""
    return replace(recipe, actor_lr=10 * recipe.actor_lr, critic_lr=10 * recipe.critic_lr)


def adjusted(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """Return the recipe with settings of the form ``NAME=VALUE``; ``none`` stands for null.

    Raises:
        UsageError: A name is unknown, or a value does not fit it, such as a batch of no episodes.
    """
    hints = get_type_hints(Recipe)
    names = [field.name for field in fields(Recipe) if field.name != "name"]
    changes: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"Did you mean {near[0]}?" if near else f"It is one of: {', '.join(names)}."
            raise UsageError(f"The recipe has no {name!r}.", where=f"--set {setting}", next_step=hint)
        changes[name] = value = _read(text, hints[name], setting)
        if isinstance(value, int | float) and (wanted := _out_of_range(name, value)):
            raise UsageError(f"{text!r} does not fit.", where=f"--set {setting}", next_step=f"Give {wanted}.")
    return replace(recipe, **changes)


def _out_of_range(name: str, value: float) -> str:
    """Return what a number should be instead; empty where it can be trained by."""
    if name in _COUNTS:
        return "" if value >= 1 else "1 or more"
    if name in _SHARES:
        return "" if 0 <= value <= 1 else "a number from 0 to 1"
    if name in _POSITIVE:
        return "" if 0 < value < math.inf else "a number above 0"
    return "" if 0 <= value < math.inf else "a number that is not below 0"


def _read(text: str, kind: Any, setting: str) -> Any:
    if get_origin(kind) is UnionType:
        if text.lower() == "none":
            return None
        kind = next(part for part in get_args(kind) if part is not type(None))
    try:
        if get_origin(kind) is Literal:
            return {choice: choice for choice in get_args(kind)}[text]
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (KeyError, ValueError):
        choices = " or ".join(get_args(kind)) or {bool: "true or false", int: "a whole number"}.get(kind, "a number")
        raise UsageError(f"{text!r} does not fit.", where=f"--set {setting}", next_step=f"Give {choices}.") from None
