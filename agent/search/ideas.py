"""Ideas that agents begin with where the developer gives none, by what kind of device the module runs on.

They are far apart on purpose: agents that begin alike end alike.
"""

from __future__ import annotations

from collections.abc import Sequence

ON_CUDA = (
    (
        "Memory traffic first: fuse everything between two unavoidable passes into one kernel, with wide loads, and keep "
        "intermediate values in registers."
    ),
    (
        "Launches first: count the kernels of the original and get to the fewest the data allow; "
        "recompute a cheap value rather than write it to memory and read it again."
    ),
    (
        "Arithmetic and occupancy first: find the heaviest stage, tile it through shared memory, and choose block and tile sizes "
        "by measuring them with Sweep."
    ),
    (
        "Algebra first: rewrite the computation before you write a kernel (fold constants, one pass instead of two, "
        "another order of loops), then write the plainest kernel for what is left."
    ),
)
ON_CPU = (
    "Memory traffic first: fuse all passes into one loop over contiguous memory and keep intermediate values in registers.",
    (
        "Vectors first: write inner loops that the compiler turns into vector code (restrict, no branches, fixed trip "
        "counts)."
    ),
    (
        "Algebra first: rewrite the computation before you write a kernel (fold constants, one pass instead of two), "
        "then write the plainest kernel for what is left."
    ),
    "Caches first: block the loops so that what is read twice is still in the first cache.",
)


def idea_for(agent: int, round_number: int, device: str, given: Sequence[str]) -> str:
    """Return what an agent (from 1) begins with in a round (from 1); in each round it gets another one, as far as they go."""
    ideas = given or (ON_CUDA if device.startswith("cuda") else ON_CPU)
    return ideas[(agent - 1 + (round_number - 1) * (0 if given else 1)) % len(ideas)]
