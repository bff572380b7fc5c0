"""Rejection fine-tuning: imitate the episodes that earned something and were well-formed.

L = -E[ sum_t log pi(a_t | s_t, a_<t) ] over the episodes with R > 0 and without redundant loops or broken tool calls (CUDA
Agent, arXiv 2602.24286, section 3.3). The sum is divided by the actions of the batch, which a step of Adam divides out again.
Only what a model wrote is imitated; what tools answered is read.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from torch import Tensor

from sandbox.errors import ExitCode, UsageError
from trainer.data.dataset import read_set
from trainer.data.episode import Episode, Stage
from trainer.maths.aggregate import Mean, token_weights
from trainer.maths.losses import nll
from trainer.run.learner import Learner
from trainer.run.options import add_options as add_common_options
from trainer.run.options import opened

PASSES = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    add_common_options(parser, steps=f"{PASSES} passes through the set")


def run(options: argparse.Namespace) -> int:
    """Fine-tune, and return the exit code."""
    training = read_set(options.data)
    episodes = training.eligible(Stage.RFT)
    chosen = rewarded(episodes)
    with opened(options, "rft", ["policy"], training, length_jump=None) as (run_, learner):

        def once() -> dict[str, float | None]:
            return update(learner, [episodes[chosen[number]] for number in learner.next_episodes(len(chosen))])

        run_.train(learner, options.steps or PASSES * math.ceil(len(chosen) / learner.recipe.batch), once)
    return ExitCode.OK


def rewarded(episodes: Sequence[Episode]) -> list[int]:
    """Return the numbers of the episodes that earned something.

    Raises:
        UsageError: None did.
    """
    found = [number for number, episode in enumerate(episodes) if (episode.reward or 0.0) > 0]
    if not found:
        raise UsageError(
            f"None of {len(episodes)} episodes earned more than 0, and only those are imitated.",
            next_step="Ingest more sessions, or begin with warmup, which makes its own.",
        )
    return found


def update(learner: Learner, episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Take one step of imitation, and return its numbers."""
    batch = learner.batch(episodes, sampled=False)
    weights = token_weights(batch.lengths, Mean.TOKEN).to(learner.processes.device)

    def loss(where: Tensor, logp: Tensor) -> Tensor:
        return (weights[where] * nll(logp)).sum()

    with learner.measured(batch) as numbers:
        numbers["nll"], numbers["actor_norm"] = learner.improve_policy(batch, loss)
    return numbers
