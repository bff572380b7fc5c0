"""Which way of measuring this is: trials of one way add up, however else the judge changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from sandbox.judge_limits import JudgeLimits, TierLimits

ROOT = Path(__file__).parents[3]
MEASURED_BY = (
    "sandbox/reward.py",
    "sandbox/timing/batches.py",
    "sandbox/timing/event_cost.py",
    "sandbox/timing/profiling.py",
    "sandbox/timing/statistics.py",
    "sandbox/timing/timekeeper.py",
    "sandbox/harness/warpsmith_harness/baselines.py",
    "sandbox/harness/warpsmith_harness/graphs.py",
    "sandbox/harness/warpsmith_harness/placement.py",
    "sandbox/harness/warpsmith_harness/timing.py",
)
"""What runs around a timed call, chooses how many there are, or makes an interval and a reward of them."""


@cache
def measuring_version(root: Path = ROOT) -> str:
    """Return the beginning of a sha256 of the sources that times and rewards come from, and of how much a tier measures."""
    total = hashlib.sha256()
    for name in MEASURED_BY:
        total.update(name.encode() + b"\0" + (root / name).read_bytes())
    total.update(repr([_amount(tier) for tier in (JudgeLimits().quick, JudgeLimits().full)]).encode())
    return total.hexdigest()[:12]


def _amount(tier: TierLimits) -> tuple[float, ...]:
    return (tier.placements, tier.more_placements, tier.profile_seconds, tier.pairs, tier.least_pairs)
