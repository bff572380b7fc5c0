"""What two events around a call cost, which is no work of the call's: it is taken off the device times of both sides.

On an H200 two events with nothing between them read 2.9 µs, the same in every process, behind any wait and after any flush, and
a kernel reads that much more by events than by Nsight Compute. The trusted bench measures it anew for every placement, in
the queue that calls are timed in. A worker is not asked: what it says of its own clock could make its times shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from sandbox.bench_client import Bench

_BATCHES = 3
_CALLS = 12
_LEAST_SHARE = 0.25
"""Of what was read is left, at least: a call that puts nothing on the device has no time of its own, but a time is positive."""


def event_cost(bench: Bench, seconds: float) -> float:
    """Return the microseconds that two events around nothing read on the bench.

    The least of a few medians: whatever else the device does meanwhile only makes it longer.

    Args:
        bench: Measures it.
        seconds: Time limit of an answer.
    """
    answers = [bench.ask({"op": "empty", "count": _CALLS}, seconds)[0] for _ in range(_BATCHES)]
    return min(median(float(us) for us in answer["us"]) for answer in answers)


def without_events(read_us: Sequence[float], cost_us: float) -> list[float]:
    """Return what events read of calls without what the events cost; a quarter of it is left in any case."""
    return [max(us - cost_us, _LEAST_SHARE * us) for us in read_us]
