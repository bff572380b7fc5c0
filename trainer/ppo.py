"""PPO over episodes of many turns: critic first, then actor; only what the policy wrote is an action.

L = -E[ (1/T) sum_t min(rho_t A_t, clip(rho_t, 1 - low, 1 + high) A_t) ], A by GAE over the actions alone, the reward on the
last of them (CUDA Agent, arXiv 2602.24286, sections 3.2 and 3.3). rho is the ratio between two passes of this engine: another
engine's numbers for the same tokens differ most where tokens are rare, and to take that for a change of the policy is how the
paper explains collapse. The policy that wrote a stored episode is a third one, and bounded importance weights correct for it
(decoupled PPO, arXiv 2110.00641).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sandbox.errors import ExitCode, UsageError
from trainer.data.dataset import read_set
from trainer.data.episode import Episode, Stage
from trainer.maths.aggregate import Mean, token_weights
from trainer.maths.gae import adaptive_lambda
from trainer.maths.importance import correction
from trainer.maths.kl import k1, k3, kl_loss
from trainer.maths.losses import clipped, dppo_loss, moved_far, nll, policy_loss
from trainer.maths.whitening import Moments, whiten
from trainer.run.batch import Batch
from trainer.run.learner import Learner, Loss
from trainer.run.options import add_options as add_common_options
from trainer.run.options import opened
from trainer.run.presets import Recipe
from trainer.value import estimates, explained, fit


@dataclass(frozen=True)
class Signal:
    """What the policy learns from, for all actions of a batch.

    Attributes:
        old: Log-probabilities before this step, (actions,).
        advantages: By how much each action was better than expected, (actions,).
        importance: How much each counts, for having been written by another policy, (actions,).
        reference: Log-probabilities before all training, (actions,); null where nobody asks how far it has gone.
    """

    old: Tensor
    advantages: Tensor
    importance: Tensor
    reference: Tensor | None = None

    def at(self, where: Tensor) -> Signal:
        """Return the same for some of the actions."""
        reference = None if self.reference is None else self.reference[where]
        return Signal(self.old[where], self.advantages[where], self.importance[where], reference)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    add_common_options(parser, steps="one pass through the set, or fewer where its episodes get too old")
    where = "folder of the critic to begin from, or of a run of value (default: that of --model)"
    parser.add_argument("--critic", type=Path, help=where)


def run(options: argparse.Namespace) -> int:
    """Train on stored episodes, and return the exit code."""
    training = read_set(options.data)
    episodes = training.eligible(Stage.PPO)
    with opened(options, "ppo", ["policy", "critic"], training) as (run_, learner):

        def once() -> dict[str, float | None]:
            return update(learner, next_fresh(episodes, learner))

        run_.train(learner, options.steps or steps_over(episodes, learner), once)
    return ExitCode.OK


def steps_over(episodes: Sequence[Episode], learner: Learner) -> int:
    """Return for how many steps stored episodes are good: one pass, or until the newest of them are too old."""
    one_pass, gap = math.ceil(len(episodes) / learner.recipe.batch), learner.recipe.version_gap
    newest = max(episode.policy.version for episode in episodes)
    if gap is None or newest < 0:
        return one_pass
    fresh_for = newest + gap + 1 - (learner.version - learner.step)
    return max(1, min(one_pass, fresh_for))


def next_fresh(episodes: Sequence[Episode], learner: Learner) -> list[Episode]:
    """Return the next batch in which an episode is not too old; where all of them are, just the next."""

    def is_of_use(some: Sequence[Episode]) -> bool:
        return any(is_fresh(each, learner.recipe, learner.version) for each in some)

    while True:
        batch = [episodes[number] for number in learner.next_episodes(len(episodes))]
        if is_of_use(batch) or not is_of_use(episodes):
            return batch


def is_fresh(episode: Episode, recipe: Recipe, version: int) -> bool:
    """Return whether an episode is of a policy that is no more updates behind than a recipe allows, or of an unknown one."""
    made = episode.policy.version
    return recipe.version_gap is None or made < 0 or version - made <= recipe.version_gap


def update(learner: Learner, episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Take one step of critic and policy, and return its numbers.

    Args:
        learner: With both.
        episodes: Fresh or stored; each with a reward and at least one action.

    Raises:
        UsageError: All of them were written by policies too different from this one.
    """
    recipe = learner.recipe
    batch = learner.batch(episodes)
    with learner.measured(batch) as numbers:
        old, entropy = learner.logprobs(batch)
        values = learner.values(batch)
        numbers["entropy"] = float(entropy.mean())
        numbers["explained_variance"] = variance = explained(values, batch)
        kept, importance = corrected(batch, old, recipe, learner.version, numbers)

        numbers["critic_loss"], numbers["critic_norm"] = fit(learner, batch, values)
        for _ in range(1, recipe.critic_updates):
            fit(learner, batch, learner.values(batch))

        reference = learner.reference_logprobs(batch) if recipe.kl else None
        signal = Signal(old, advantages(batch, values, recipe, variance), importance, reference)
        if recipe.whiten:
            signal = whitened(signal, batch, kept)
        improve(learner, batch, signal, kept, numbers)
        measure_move(learner, batch, signal, numbers)
    return numbers


def corrected(
    batch: Batch, old: Tensor, recipe: Recipe, version: int, numbers: dict[str, float | None]
) -> tuple[list[int], Tensor]:
    """Leave out what another policy wrote, and weigh what is left.

    Args:
        batch: The episodes.
        old: Log-probabilities of the actions before this step, (actions,).
        recipe: Says what is too different, and whether there are weights.
        version: Updates behind the policy.
        numbers: Take up how different the policies are.

    Returns:
        Numbers of the episodes that the policy learns from, and the weights of all actions.

    Raises:
        UsageError: No episode is left.
    """
    kept = [number for number, episode in enumerate(batch.episodes) if is_fresh(episode, recipe, version)]
    importance = torch.ones(batch.actions)
    if recipe.importance is not None:
        found = correction(old, batch.behaviour, batch.lengths, recipe.importance, recipe.reject_k3)
        kept = [number for number in kept if found.kept[number]]
        importance = found.weights
        numbers |= {
            "mismatch_k3": found.diagnostics["k3"],
            "importance_cut": found.diagnostics["capped_share"],
            "effective_share": found.diagnostics["effective_share"],
        }
    numbers["rejected"] = 1 - len(kept) / len(batch.episodes)
    if not kept:
        behind = version - max(episode.policy.version for episode in batch.episodes)
        raise UsageError(
            f"None of {len(batch.episodes)} episodes was written by a policy close enough to this one.",
            where=f"version_gap={recipe.version_gap}: the newest is {behind} updates older; "
            f"reject_k3={recipe.reject_k3}: their mean k3 is {numbers.get('mismatch_k3', math.nan):.3g}",
            next_step="Make new sessions with this policy and ingest them; cycle does so by itself.",
        )
    return kept, importance


def advantages(batch: Batch, values: Tensor, recipe: Recipe, variance: float | None) -> Tensor:
    """Return the advantages of all actions, (actions,).

    Where the critic explains nothing it adds noise, and a recipe may let the mean reward of the batch stand in for it (EVPO,
    arXiv 2604.19485).
    """
    if recipe.baseline_fallback and (variance is None or variance <= 0):
        return batch.spread(batch.rewards - batch.rewards.mean()).float()
    lams = [
        adaptive_lambda(length, recipe.alpha) if recipe.lam_actor is None else recipe.lam_actor
        for length in batch.lengths.tolist()
    ]
    return estimates(batch, values, recipe.gamma, lams)[0]


def whitened(signal: Signal, batch: Batch, kept: Sequence[int]) -> Signal:
    """Return the signal with advantages of mean 0 and variance 1 over the actions of the episodes that are learnt from."""
    whole = torch.zeros(len(batch.episodes), dtype=torch.bool)
    whole[list(kept)] = True
    moments = Moments.of(signal.advantages[batch.spread(whole)])
    return replace(signal, advantages=whiten(signal.advantages, moments))


def improve(
    learner: Learner, batch: Batch, signal: Signal, kept: Sequence[int], numbers: dict[str, float | None]
) -> None:
    """Take the policy's steps: as many as epochs times minibatches."""
    recipe = learner.recipe
    losses, norms = [], []
    for _ in range(recipe.epochs):
        for chosen in np.array_split(learner.random.permutation(kept), min(recipe.minibatches, len(kept))):
            part, where = batch.part(sorted(chosen.tolist()), recipe.tokens)
            loss, norm = learner.improve_policy(part, loss_of(part, signal.at(where), learner))
            losses.append(loss)
            norms.append(norm)
    numbers |= {"actor_loss": sum(losses) / len(losses), "actor_norm": max(norms)}


def loss_of(batch: Batch, signal: Signal, learner: Learner) -> Loss:
    """Return the loss of a batch, to be asked row by row."""
    recipe, device = learner.recipe, learner.processes.device
    weights = token_weights(batch.lengths, Mean(recipe.averaging)).to(device)
    good = good_weights(batch).to(device)
    old, wanted, importance = signal.old.to(device), signal.advantages.to(device), signal.importance.to(device)
    reference = None if signal.reference is None else signal.reference.to(device)

    def loss(where: Tensor, logp: Tensor) -> Tensor:
        if recipe.policy_loss == "dppo":
            each = dppo_loss(logp, old[where], wanted[where], recipe.dppo_bound, recipe.dppo_bound)
        else:
            each = policy_loss(logp, old[where], wanted[where], recipe.clip_low, recipe.clip_high, recipe.dual_clip)
        total = (weights[where] * importance[where] * each).sum()
        if reference is not None:
            total = total + recipe.kl * (weights[where] * kl_loss(logp, reference[where])).sum()
        return total + recipe.nll * (good[where] * nll(logp)).sum() if recipe.nll else total

    return loss


def good_weights(batch: Batch) -> Tensor:
    """Return the weights of all actions in the mean over those of episodes that earned something (VAPO, arXiv 2504.05118)."""
    good = batch.spread(batch.rewards > 0).float()
    return good / good.sum().clamp(min=1)


def measure_move(learner: Learner, batch: Batch, signal: Signal, numbers: dict[str, float | None]) -> None:
    """Measure how far the step has moved the policy, over all actions of the batch."""
    recipe = learner.recipe
    now, old = learner.logprobs(batch).logp.double(), signal.old.double()
    ratio = (now - old).exp()
    if recipe.policy_loss == "dppo":
        cut = moved_far(now, old, signal.advantages, recipe.dppo_bound, recipe.dppo_bound)
    else:
        cut = clipped(now, old, signal.advantages, recipe.clip_low, recipe.clip_high)
    numbers |= {
        "k1": float(k1(old, now).mean()),
        "k3": float(k3(old, now).mean()),
        "clip_fraction": float(cut.float().mean()),
        "ratio_min": float(ratio.min()),
        "ratio_max": float(ratio.max()),
    }
    if signal.reference is not None:
        numbers["reference_k3"] = float(k3(now, signal.reference.double()).mean())
