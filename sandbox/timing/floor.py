"""How near a time is to the floor of memory-bound work: a plain copy of as many bytes as the task must move."""

from __future__ import annotations

END_OF_THE_ROAD = 0.97
"""Kernels that were tuned by hand ended at 97 to 99 % of a plain copy."""
NO_FLOOR = 1.2


def share_of_copy(us: float | None, copy_us: float) -> str:
    """Return ``83 % of a plain copy's speed``, and from where on there is nothing left to gain; empty without a time."""
    if not us or us <= 0 or copy_us <= 0:
        return ""
    share = copy_us / us
    told = f"{share:.0%} of a plain copy's speed"
    if share < END_OF_THE_ROAD:
        return told
    if share > NO_FLOOR:
        return f"{told}, which is no floor here: caches hold the data, or fewer bytes are moved"
    return f"{told}: the end of the road for memory-bound work, unless fewer bytes are moved"
