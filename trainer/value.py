"""Value pretraining: teach the critic what episodes of a fixed policy end up earning, failures too, before it is relied on.

L = 1/2 E[ (1/T) sum_t (V(s_t) - V_target(t))^2 ] with V_target = V + A, A by GAE at the critic's lambda (CUDA Agent, arXiv
2602.24286, equation 4). At lambda 1 the target is what the episode earned (VC-PPO, arXiv 2503.01491): nothing is learnt from
the critic's own guesses. A part of the episodes is held out; when its explained variance rises no more, the stage ends at
the step where it was best, since more passes only fit the rest by heart.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sandbox.errors import ExitCode
from trainer.data.dataset import read_set
from trainer.data.episode import Episode, Stage
from trainer.maths.aggregate import Mean, token_weights
from trainer.maths.explained import explained_variance
from trainer.maths.gae import advantages, terminal_rewards
from trainer.maths.losses import value_loss
from trainer.run.batch import Batch
from trainer.run.learner import Learner
from trainer.run.metrics import Metrics, best
from trainer.run.options import add_options as add_common_options
from trainer.run.options import opened
from trainer.run.run import HELD_OUT

PASSES = 50
PATIENCE = 5
"""Passes without a better held-out explained variance after which the critic has learnt what it can."""
BETTER = 0.005
"""What counts as better."""
FEWEST = 4
"""Episodes that a part of can be held out."""
BLIND_PASSES = 2
"""Passes where nothing can be held out, and so nobody sees where the plateau is."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    add_common_options(
        parser,
        steps=f"until held-out explained variance rises no more, {PASSES} passes at most; {BLIND_PASSES} where none can be told",
    )


def run(options: argparse.Namespace) -> int:
    """Pretrain the critic, and return the exit code."""
    training = read_set(options.data)
    episodes = training.eligible(Stage.VALUE)
    chosen, held_out = parted([episode.reward or 0.0 for episode in episodes], options.seed)
    with opened(options, "value", ["critic"], training, variance_patience=None, length_jump=None) as (run_, learner):

        def once() -> dict[str, float | None]:
            numbers = update(learner, [episodes[chosen[number]] for number in learner.next_episodes(len(chosen))])
            if held_out and learner.passed:
                numbers[HELD_OUT] = foresight(learner, [episodes[number] for number in held_out])
            return numbers

        if not run_.ended:
            run_.train(
                learner, options.steps or PASSES * math.ceil(len(chosen) / learner.recipe.batch), once, at_plateau
            )
        if not run_.ended and (step := best(run_.history, HELD_OUT)):
            run_.end(step, f"The critic was best at step {step} on the {len(held_out)} episodes that were held out.")
        run_.say(run_.ended)
    return ExitCode.OK


def update(learner: Learner, episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Take one step of the critic, and return its numbers."""
    batch = learner.batch(episodes)
    with learner.measured(batch) as numbers:
        values = learner.values(batch)
        numbers["explained_variance"] = explained(values, batch)
        numbers["critic_loss"], numbers["critic_norm"] = fit(learner, batch, values)
    return numbers


def fit(learner: Learner, batch: Batch, values: Tensor) -> tuple[float, float]:
    """Move the critic towards its targets for a batch.

    Args:
        learner: Whose critic.
        batch: The episodes.
        values: What the critic expected before, (actions,).

    Returns:
        The loss, and the norm of its gradient.
    """
    recipe, device = learner.recipe, learner.processes.device
    targets = estimates(batch, values, recipe.gamma, [recipe.lam_critic] * len(batch.episodes))[1].to(device)
    weights = token_weights(batch.lengths, Mean(recipe.averaging)).to(device)
    old = values.to(device)

    def loss(where: Tensor, now: Tensor) -> Tensor:
        return (weights[where] * value_loss(now, targets[where], old[where], recipe.value_clip)).sum()

    return learner.improve_critic(batch, loss)


def estimates(batch: Batch, values: Tensor, gamma: float, lams: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Return the advantages of all actions of a batch, and the returns that they point to.

    Args:
        batch: The episodes; each earns its reward on its last action.
        values: What the critic expects before each action, (actions,).
        gamma: Discount of a token.
        lams: Lambda of each episode.

    Returns:
        float32, (actions,) each.
    """
    found = []
    for value, reward, lam in zip(batch.parted(values), batch.rewards.tolist(), lams, strict=True):
        rewards = terminal_rewards(len(value), reward)
        found.append(np.stack(advantages(rewards, value.double().numpy(), gamma, lam)))
    both = torch.from_numpy(np.concatenate(found, axis=1)).float()
    return both[0], both[1]


def explained(values: Tensor, batch: Batch) -> float | None:
    """Return which share of the variance of what was earned the critic explains, over all actions; null if there is none.

    Measured on what was earned and not on the critic's own targets, which below lambda 1 flatter it.
    """
    share = explained_variance(values.double().numpy(), batch.spread(batch.rewards).numpy())
    return None if math.isnan(share) else share


def foresight(learner: Learner, episodes: Sequence[Episode]) -> float | None:
    """Return the explained variance of the critic on episodes that it does not learn from."""
    batch = learner.batch(episodes)
    return explained(learner.values(batch), batch)


def parted(rewards: Sequence[float], seed: int) -> tuple[list[int], list[int]]:
    """Hold out a tenth of the episodes, more of a small set, with about the rewards of the rest.

    Args:
        rewards: Of each episode.
        seed: Of what is held out among equals.

    Returns:
        Numbers of those to learn from and of those held out; of these there are none where there are fewer than four in all, or
        where they all earned the same, so that nothing could be told from them.
    """
    shuffled = np.random.default_rng(seed).permutation(len(rewards)).tolist()
    by_reward = sorted(shuffled, key=lambda number: rewards[number])
    if len(rewards) < FEWEST:
        return by_reward, []
    apart = min(10, max(2, len(rewards) // 4))
    held_out = by_reward[apart // 2 :: apart]
    if len({rewards[number] for number in held_out}) == 1:
        return by_reward, []
    return sorted(set(by_reward) - set(held_out)), sorted(held_out)


def at_plateau(history: Sequence[Metrics]) -> bool:
    """Return whether the held-out explained variance has not risen for some passes."""
    found = [value for metrics in history if (value := metrics.get(HELD_OUT)) is not None]
    return len(found) > PATIENCE and max(found[-PATIENCE:]) < max(found[:-PATIENCE]) + BETTER
