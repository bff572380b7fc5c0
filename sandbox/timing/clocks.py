"""Holds the times a worker reports against what the parent can see for itself: its own clock, and the bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from sandbox.timing.cpu_watch import busiest_us

_TARGET_US = 30_000.0
_MOST_CALLS = 150
_LEAST_CALLS = 2
_QUEUED_LAUNCHES = 500
_LAUNCH_US = 4.0
_JITTER_US = 150.0
_SLACK = 1.35
_GAP_US = 3.0
"""So long the device may stand still between two calls in a row, which no event around one of them sees."""
_LONGEST_FILL_US = 80_000.0
_FASTER_THAN_COPY = 4.0


@dataclass(frozen=True)
class BurstPlan:
    """Two bursts of calls whose difference in length is the parent's own measure of a call; behind ``fill_us`` of waiting."""

    few: int
    many: int
    fill_us: float


def plan_burst(claimed_us: float, host_us: float, on_gpu: bool) -> BurstPlan:
    """Choose burst lengths: long enough for this clock, short enough for the device's launch queue."""
    wanted = int(_TARGET_US / max(claimed_us, 0.1))
    if on_gpu:
        launches = max(1.0, host_us / _LAUNCH_US)
        wanted = min(wanted, int(_QUEUED_LAUNCHES / launches), int(_LONGEST_FILL_US / max(host_us, 1.0)))
    more = max(_LEAST_CALLS, min(_MOST_CALLS, wanted))
    few = max(1, more // 4)
    fill = min(_LONGEST_FILL_US, 1.5 * host_us * (few + more) + 300.0) if on_gpu else 0.0
    return BurstPlan(few, few + more, fill)


def more_patient(plan: BurstPlan) -> BurstPlan:
    """Return bursts behind twice the waiting: a host that others keep busy needs longer to queue what the device runs."""
    return replace(plan, fill_us=min(_LONGEST_FILL_US, 2 * plan.fill_us))


def contradicts(claimed_us: float, plan: BurstPlan, measured_us: float) -> bool:
    """Tell whether a burst contradicts what the worker said a call takes, a moment before.

    Calls in a row, with warm caches, take no longer each than one cold call alone.
    """
    return measured_us > _SLACK * claimed_us + _JITTER_US / (plan.many - plan.few) + _GAP_US


def measure(
    plan: BurstPlan, burst: Callable[[int, float], None], ran: Callable[[], dict[int, int]] | None = None
) -> float:
    """Return microseconds of a call by this process's own clock; a difference of bursts leaves fixed costs out.

    Args:
        plan: The lengths.
        burst: Makes that many calls behind so many microseconds of waiting, and returns when all are done.
        ran: Tells how long each thread that makes them has had a processor, in nanoseconds. What a burst takes is then no
            more than the busiest of them ran: waiting for others is left out.
    """
    taken = []
    for count in (plan.few, plan.many):
        before = ran() if ran else {}
        started = time.perf_counter_ns()
        burst(count, plan.fill_us)
        wall = (time.perf_counter_ns() - started) / 1000
        taken.append(min(wall, busiest_us(before, ran())) if ran else wall)
    return (taken[1] - taken[0]) / (plan.many - plan.few)


def below_floor(claimed_us: float, output_bytes: int, copy_us: float, bytes_moved: int) -> str:
    """Return why a time is under what writing the outputs alone takes at several times the measured bandwidth."""
    if copy_us <= 0 or bytes_moved <= 0:
        return ""
    floor = copy_us * min(1.0, output_bytes / bytes_moved) / _FASTER_THAN_COPY
    if claimed_us >= floor:
        return ""
    return (
        f"{claimed_us:.2f} us a call is less than writing its {output_bytes} bytes of output takes at "
        f"{_FASTER_THAN_COPY:.0f} times the bandwidth of a plain copy ({floor:.2f} us)"
    )
