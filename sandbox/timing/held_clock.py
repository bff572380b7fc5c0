"""Holds what a worker says of its calls against the parent's own clock, several times in a placement."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median

from sandbox.timing.clocks import BurstPlan, contradicts, measure, more_patient, plan_burst

CONTRADICTIONS = 8
"""So often the clock must have contradicted, and every time, before the worker is not believed."""


class HeldClock:
    """One kind of time that a worker reports, and how often the parent's clock contradicted it.

    Args:
        kind: What it is called: ``device``, ``latency`` or ``warm``.
        burst: Makes so many calls behind so many microseconds of waiting, and returns when all are done.
        queued: Whether the calls of a burst are queued on a device; else each ends before the next begins.
        ran: How long each of the worker's threads ran, as ``clocks.measure`` takes it.
    """

    def __init__(
        self,
        kind: str,
        burst: Callable[[int, float], None],
        *,
        queued: bool,
        ran: Callable[[], dict[int, int]] | None = None,
    ) -> None:
        self._kind = kind
        self._burst = burst
        self._queued = queued
        self._ran = ran
        self._plan: BurstPlan | None = None
        self._checks: list[tuple[float, float] | None] = []

    @property
    def count(self) -> int:
        """How many times the clock was held against the worker."""
        return len(self._checks)

    @property
    def doubts(self) -> bool:
        """Whether it contradicted every time so far, and not yet often enough."""
        return all(self._checks) and self.count < CONTRADICTIONS

    def check(self, claimed: list[float], host_us: float) -> None:
        """Take a burst, and hold what the worker just said against it.

        The next one after a contradiction waits longer, for it may have measured the host that queues the calls.

        Args:
            claimed: Microseconds of the calls that it just made.
            host_us: How long its host needs to queue one.
        """
        if self._plan is None:
            self._plan = plan_burst(median(claimed), host_us, self._queued)
        measured = measure(self._plan, self._burst, self._ran)
        said = fmean(claimed)
        contradicted = contradicts(said, self._plan, measured)
        self._checks.append((said, measured) if contradicted else None)
        if contradicted:
            self._plan = more_patient(self._plan)

    def forget_since(self, count: int) -> None:
        """Forget the checks after the first ``count``: what was disturbed proves nothing."""
        del self._checks[count:]

    def excuse_last(self) -> None:
        """Let the last check contradict nobody: who was kept waiting is no liar."""
        self._checks[-1] = None

    def evidence(self) -> str:
        """Return what contradicts the worker, or an empty string."""
        contradictions = [check for check in self._checks if check is not None]
        if not contradictions or len(contradictions) < len(self._checks):
            return ""
        said, measured = contradictions[-1]
        what = {"device": "a call", "warm": "a call with warm caches"}.get(self._kind, f"the {self._kind} of a call")
        return (
            f"the worker reports {said:.1f} us for {what}, and by the judge's own clock it takes {measured:.1f} us; "
            f"so {len(contradictions)} times of {self.count}"
        )
