"""Correction for actions that somewhat older weights, or another engine, sampled.

Three policies are told apart (decoupled PPO, arXiv 2110.00641): the behaviour policy, whose log-probabilities were stored;
the old one, the weights before this update, recomputed by the engine that trains; and the one in training. The ratio that
PPO clips is between the last two. How far the first two are apart weighs actions, and rejects episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.maths.kl import k3
from trainer.maths.losses import log_ratio

CAP = 2.0
K3_BOUND = 0.01


@dataclass(frozen=True)
class Correction:
    """How the actions of a batch count.

    Attributes:
        weights: float32, (actions,): old / behaviour, at most the cap; 0 for those of rejected episodes.
        kept: bool, (episodes,).
        diagnostics: Means over all actions, for the log: ``mismatch`` (of absolute differences of log-probabilities),
            ``k3``, ``effective_share`` (effective sample size over actions), ``capped_share`` (of actions) and
            ``rejected_share`` (of episodes).
    """

    weights: Tensor
    kept: Tensor
    diagnostics: dict[str, float]


def correction(
    old: Tensor, behaviour: Tensor, lengths: Tensor, cap: float = CAP, k3_bound: float | None = K3_BOUND
) -> Correction:
    """Weigh actions by truncated importance, and reject episodes whose mean k3 is out of bounds.

    Args:
        old: Log-probabilities of the actions, recomputed, (actions,); episode by episode.
        behaviour: Those that were stored, (actions,).
        lengths: int64, (episodes,); how many actions each has.
        cap: No weight is larger.
        k3_bound: An episode with a larger mean of k3 has no weight at all; None rejects none.
    """
    ratio = log_ratio(old, behaviour).exp()
    weights = ratio.clamp(max=cap)
    distance = k3(behaviour, old)
    means = torch.stack([part.mean() for part in distance.split(lengths.tolist())])
    kept = torch.ones_like(means, dtype=torch.bool) if k3_bound is None else means <= k3_bound
    diagnostics = {
        "mismatch": float((old - behaviour).abs().mean()),
        "k3": float(distance.mean()),
        "effective_share": float(weights.sum() ** 2 / (len(weights) * (weights**2).sum())),
        "capped_share": float((ratio > cap).float().mean()),
        "rejected_share": float((~kept).float().mean()),
    }
    return Correction(weights * torch.repeat_interleave(kept, lengths), kept, diagnostics)
