"""What an export says of a verdict and of the developer's decisions: short, of plain values, with the same keys always.

The same keys and types in every row, null where there is nothing to say, are what column stores need.
"""

from __future__ import annotations

from typing import Any

from agent import events as ev
from agent.exports.trajectory import Trajectory
from agent.state import Judged, SessionState

DECISIONS = (
    *(ev.HunkAccepted, ev.HunkRejected, ev.Landed, ev.Undone),
    *(ev.Steered, ev.Interrupted, ev.PermissionAnswered, ev.ModeChanged, ev.SkillsTrusted),
)
"""What the developer did about the agent and its work."""


def measured(judged: Judged) -> dict[str, Any]:
    """Return what was measured of an attempt, with the interval, the hash of what was timed, and the device."""
    verdict, gain = judged.verdict, judged.verdict.over_eager
    return {
        "attempt": judged.attempt,
        "tier": verdict.tier,
        "correct": verdict.correct,
        "reward": verdict.reward,
        "reason": verdict.reason,
        "speedup": None if gain is None else gain.ratio,
        "low": None if gain is None else gain.low,
        "high": None if gain is None else gain.high,
        "candidate_sha256": verdict.candidate_sha256,
        "device": str(verdict.environment.get("device", "")),
    }


def decided(state: SessionState, attempt: int) -> str:
    """Return ``accepted``, ``rejected``, ``mixed`` or nothing: what the developer decided on an attempt as a whole.

    Accepted is what stands in their project without a hunk missing, or what they accepted hunks of and rejected none;
    rejected what they rejected hunks of and took none. What they took in part, or took back, is mixed.
    """
    reasons = [reason for (number, _, _), reason in state.decisions.items() if number == attempt]
    landings = [number for number, landed in state.landings.items() if landed.attempt == attempt]
    standing = [state.landings[number] for number in landings if number in state.landings_standing]
    taken = None in reasons or bool(standing)
    refused = any(reason is not None for reason in reasons) or any(landed.partial for landed in standing)
    if (taken and refused) or (landings and not standing):
        return "mixed"
    return "accepted" if taken else "rejected" if refused else ""


def facts(trajectory: Trajectory) -> dict[str, Any]:
    """Return where a row comes from and what its session came to."""
    session = trajectory.session
    return {
        "session": session.id,
        "task": session.title,
        "source_sha256": trajectory.source_sha256,
        "model": session.settings.model,
        "device": session.device,
        "ended": trajectory.ended,
        "truncated": trajectory.ended != ev.EndReason.FINISHED,
        "turns": len(trajectory.turns),
        "attempts": len(trajectory.state.judged),
        "reward": trajectory.reward,
        "last_reward": trajectory.last_reward,
    }
