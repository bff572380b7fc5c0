"""How long a verdict waits for a quieter machine before it takes times as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import accumulate

from sandbox.errors import UsageError
from sandbox.verdict import Tier

VARIABLE = "WARPSMITH_PATIENCE"
"""Seconds that a verdict may wait in all; with 0 nothing is drawn again, as where others never leave the machine alone."""
_WAITS: Mapping[Tier, tuple[float, ...]] = {"quick": (0.0, 2.0), "full": (0.0, 1.0, 2.0, 4.0, 8.0)}


def waits(tier: Tier) -> tuple[float, ...]:
    """Return the seconds before a placement that was disturbed is drawn again, one for each a verdict may draw again.

    Raises:
        UsageError: ``WARPSMITH_PATIENCE`` is no number of seconds.
    """
    usual, given = _WAITS[tier], os.environ.get(VARIABLE, "")
    if not given:
        return usual
    try:
        patience = float(given)
    except ValueError as error:
        raise UsageError(
            f"{VARIABLE} is {given!r}, which is no number of seconds.",
            where="environment",
            next_step="Set it to the seconds that a verdict may wait for a quieter machine, such as 0 or 15.",
        ) from error
    return tuple(
        wait for wait, waited in zip(usual, accumulate(usual), strict=True) if waited <= patience and patience > 0
    )
