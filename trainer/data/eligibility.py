"""Which stages an episode may enter, and why not the others, each in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.exports.trajectory import Trajectory
from trainer.data.episode import Policy, Stage
from trainer.data.patterns import bad_habit
from trainer.data.rewards import Earned

EXACT = 1e-6
"""A temperature or top_p this close to 1 is 1."""


@dataclass(frozen=True)
class Freshness:
    """How old what PPO learns from may be.

    Attributes:
        version: Number of updates behind the policy that is trained; null where age does not matter.
        most: How many updates the policy that wrote an episode may be behind it.
    """

    version: int | None = None
    most: int = 4


ANY_AGE = Freshness()


def refusals(
    trajectory: Trajectory,
    earned: Earned,
    policy: Policy,
    *,
    rewritten: str,
    logprobs: bool,
    freshness: Freshness = ANY_AGE,
) -> dict[Stage, str]:
    """Return the stages that an episode may not enter, with the reason.

    Args:
        trajectory: The session.
        earned: What it earns.
        policy: Who wrote it.
        rewritten: Why its text was written anew in tokens; empty where they are as they were served.
        logprobs: Whether every action has a log-probability.
        freshness: What PPO may learn from.
    """
    unknown = earned.why if earned.reward is None else ""
    found = {
        Stage.RFT: unknown or _not_to_imitate(trajectory, earned),
        Stage.VALUE: earned.why,
        Stage.PPO: earned.why or rewritten or _off_policy(trajectory, policy, logprobs, freshness),
    }
    return {stage: why for stage, why in found.items() if why}


def _not_to_imitate(trajectory: Trajectory, earned: Earned) -> str:
    if earned.reward is not None and earned.reward <= 0:
        return "Its reward is not above 0."
    return bad_habit(trajectory)


def _off_policy(trajectory: Trajectory, policy: Policy, logprobs: bool, freshness: Freshness) -> str:
    if not logprobs:
        return "An answer came without log-probabilities."
    if why := _other_sampling(trajectory):
        return why
    if policy.version < 0:
        return "Its server does not say which policy in training wrote it; that of serve and of cycle does."
    if freshness.version is None:
        return ""
    if policy.version > freshness.version:
        return "A later policy wrote it than the one that is trained."
    if freshness.version - policy.version > freshness.most:
        return f"The policy that wrote it is more than {freshness.most} updates old."
    return ""


def _other_sampling(trajectory: Trajectory) -> str:
    """Return why stored log-probabilities are not those of the policy that sampled; empty where they are."""
    temperatures = [_temperature(turn.event.sampling.get("temperature")) for turn in trajectory.turns]
    if any(temperature <= 0 for temperature in temperatures):
        return "Its answers were not sampled: the temperature was 0."
    if _differ(temperatures):
        return "Its answers were sampled at different temperatures."
    for turn, temperature in zip(trajectory.turns, temperatures, strict=True):
        top_p = _temperature(turn.event.sampling.get("top_p"))
        plain = abs(temperature - 1) < EXACT and abs(top_p - 1) < EXACT
        if not plain and turn.event.identity.get("logprobs") != "processed":
            return "Its log-probabilities are the model's before temperature or top_p, which it was sampled with."
    return ""


def _temperature(told: object) -> float:
    return float(told) if isinstance(told, int | float) else 1.0


def _differ(values: Sequence[float]) -> bool:
    return bool(values) and max(values) - min(values) > EXACT
