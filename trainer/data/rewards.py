"""What a session earns: the judge's reward of what it delivers, made again from what was measured, and the developer's word.

A session delivers its best attempt. The developer's decision adds half a point if a landing of theirs stands whole, and
takes half a point if they refused the best attempt and took nothing; the sum stays within what the judge can give.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.exports.evidence import decided
from agent.exports.trajectory import Trajectory
from agent.state import Judged, SessionState
from agent.store import encode
from sandbox.reward import BEATS_COMPILE, CORRECT, FAILED, reward
from sandbox.verdict import Verdict

LANDED = 0.5
REJECTED = -0.5
TRUSTED_PLACEMENTS = 3
"""A quick verdict of fewer says too little of how fast a candidate is to be a reward."""


@dataclass(frozen=True)
class Earned:
    """What a session earns.

    Attributes:
        reward: Null where nobody can say.
        components: What ``Episode.components`` holds.
        why: Why the reward is null, or not to be relied on, in one sentence; empty where it is.
    """

    reward: float | None
    components: dict[str, Any]
    why: str = ""


def earned(trajectory: Trajectory, *, decisions: bool = True) -> Earned:
    """Return what a session earns; with ``decisions`` false by the judge alone."""
    again = _judged_again(trajectory)
    best, judged = again.state.best, again.reward
    decision, said = _decision(trajectory.state, best)
    components: dict[str, Any] = {
        "judged": judged,
        "decision": decision if decisions else 0.0,
        "decided": said,
        "tier": _tier(again.state, best),
        "attempt": best.attempt if best else None,
        "taken_from": dict(best.taken_from) if best and best.taken_from else None,
        "placements": _placements(best),
        "stored": _stored(trajectory, best),
        "verdict": _slim(best.verdict) if best else None,
    }
    if judged is None:
        return Earned(None, components, "Nobody can say what it earns: it was not judged, or the machine was at fault.")
    unsure = "Its reward is of a quick verdict with fewer than three placements." if _unsure(best) else ""
    return Earned(total(components), components, unsure)


def total(components: Mapping[str, Any]) -> float:
    """Return the reward that components add up to, within what the judge can give."""
    return float(max(FAILED, min(BEATS_COMPILE, components["judged"] + components["decision"])))


def rewarded(verdict: Verdict) -> Verdict:
    """Return a verdict with the reward that its own measurements earn by today's rules.

    One without a reward stays so: it was interrupted, or the machine was at fault. Measurements that cannot be read earn none.
    """
    if verdict.reward is None:
        return verdict
    if not _readable(verdict):
        return replace(verdict, reward=None, reason="What was measured cannot be read.")
    parts = (verdict.build, verdict.guard, verdict.verify, verdict.profile)
    again, reason = reward(*parts, timed=not _by_correctness(verdict))
    return replace(verdict, reward=again, reason=reason)


def _readable(verdict: Verdict) -> bool:
    """Whether every time that the reward rests on is a number; where one was none, the session has null, or NaN."""
    profile = verdict.profile
    if profile is None:
        return True
    times = [profile.us, *(value for gain in profile.speedup.values() for value in (gain.ratio, gain.low, gain.high))]
    return all(isinstance(value, int | float) and math.isfinite(value) for value in times)


def _judged_again(trajectory: Trajectory) -> Trajectory:
    judged = [replace(each, verdict=rewarded(each.verdict)) for each in trajectory.state.judged]
    return replace(trajectory, state=replace(trajectory.state, judged=judged))


def _decision(state: SessionState, best: Judged | None) -> tuple[float, str]:
    """Return what the developer's decisions are worth, and in a word what they were."""
    standing = [state.landings[number] for number in state.landings_standing]
    if any(not landed.partial for landed in standing):
        return LANDED, "landed"
    if standing:
        return 0.0, "landed in part"
    if state.landings:
        return 0.0, "taken back"
    if best is not None and decided(state, best.attempt) == "rejected":
        return REJECTED, "rejected"
    return 0.0, ""


def _tier(state: SessionState, best: Judged | None) -> str:
    """Return the tier that the reward comes from; empty where nothing was judged."""
    last = best or (state.judged[-1] if state.judged else None)
    if last is None:
        return ""
    return "correctness" if _by_correctness(last.verdict) else last.verdict.tier


def _placements(best: Judged | None) -> int:
    profile = best.verdict.profile if best else None
    return profile.placements if profile else 0


def _unsure(best: Judged | None) -> bool:
    if best is None or best.verdict.tier != "quick" or _by_correctness(best.verdict):
        return False
    return _placements(best) < TRUSTED_PLACEMENTS


def _by_correctness(verdict: Verdict) -> bool:
    """Whether what is right earned its reward by that alone: nobody asked for times."""
    return verdict.profile is None and verdict.reward == CORRECT


def _stored(trajectory: Trajectory, best: Judged | None) -> int | None:
    """Return the reward that the best attempt had when it was judged."""
    attempt = trajectory.state.attempt(best.attempt) if best else None
    stored = attempt.verdict.reward if attempt else trajectory.reward
    return stored if stored in (-1, 1, 2, 3) else None


def _slim(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict's JSON form without the raw samples, which stay in the session, and with null for what is no number."""
    profile = verdict.profile and replace(verdict.profile, samples={})
    form: dict[str, Any] = json.loads(encode(replace(verdict, profile=profile).to_json()))
    return form
