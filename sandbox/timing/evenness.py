"""Whether the calls of a batch took about as long as each other: else one of them did the work of those that came after it.

A worker is told what a batch will ask when it begins, and whoever finds that can answer all of it in the first call. A median
then sees only the others. Noise makes one call of a batch long now and then, and an automatic cast of weights is made once a
batch, for the reference as well: so it counts only what is found in every batch, and not in the reference's.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

_UNEVEN = 1.5
"""Mean of a batch by its median, from where on. With this much nobody gains more than half."""
_LEAST_CALLS = 3
_ENOUGH = 8


class Evenness:
    """The batches of one placement."""

    def __init__(self) -> None:
        self._own: list[float] = []
        self._others: list[float] = []

    def take(self, us: Sequence[float], *, candidate: bool) -> None:
        """Take in a batch of the candidate's, or of the reference's; one of few calls says nothing."""
        if len(us) >= _LEAST_CALLS:
            (self._own if candidate else self._others).append(fmean(us) / median(us))

    def excuse_last(self) -> None:
        """Forget the candidate's last batch: what was disturbed proves nothing."""
        del self._own[-1:]

    @property
    def doubts(self) -> bool:
        """Whether every batch so far was uneven, and there were not yet many."""
        return 0 < len(self._own) < _ENOUGH and self._all_uneven()

    def evidence(self) -> str:
        """Return what is wrong with the batches, or an empty string."""
        if len(self._own) < _ENOUGH or not self._all_uneven():
            return ""
        return (
            f"in each of {len(self._own)} batches some calls took far longer than the others: their mean is "
            f"{median(self._own):.1f} times their median, as where one call does the work of those that follow"
        )

    def _all_uneven(self) -> bool:
        usual = max(1.0, median(self._others)) if self._others else 1.0
        return min(self._own) >= _UNEVEN * usual
