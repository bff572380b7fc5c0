"""What is measured again at the end of a run: the best of many may only have been the luckiest, or the last had no time."""

from __future__ import annotations

from collections.abc import Sequence

from agent import events as ev
from agent.judging import Judging
from agent.settings import RewardTier
from agent.state import Judged
from agent.stream import Stream

MOST = 3
"""How many attempts are measured again at most: one that falls back makes another one the best."""


async def measure_best_again(stream: Stream, judging: Judging, tier: RewardTier) -> None:
    """Judge the best attempt on fresh samples, if only a quick verdict says that it is the best.

    Before that the newest code is judged once more that is right and has no time, because the machine was disturbed: it may
    be the best. With tier ``quick`` a quick verdict is reward enough, and only one that was the best among several is
    measured again. With ``correctness`` there are no samples.

    Raises:
        TaskError, EnvironmentFault: Nothing could be judged.
    """
    if tier == "correctness":
        return
    again = None
    if (untimed := _newest_untimed(stream.state.judged)) is not None:
        _tell(stream, f"measuring attempt {untimed.attempt}, which is right and could not be timed, once more")
        again = await judging.attempt(stream.files(untimed.files), tier, fresh=True)
    for _ in range(MOST):
        best = stream.state.best
        if best is None or best.verdict.tier == "full" or best.verdict.reward is None:
            return
        if again is not None and again.files == best.files:  # it stays the best, or the machine was disturbed
            return
        timed = sum(judged.verdict.profile is not None for judged in stream.state.judged)
        if tier == "quick" and timed == 1:
            return
        how = "again" if tier == "quick" else "in full"
        _tell(stream, f"measuring attempt {best.attempt}, the best so far, {how}")
        again = await judging.attempt(stream.files(best.files), tier, fresh=tier == "quick")


def _newest_untimed(judged: Sequence[Judged]) -> Judged | None:
    """Return the last attempt that is right, if no verdict of its code has a reward."""
    rewarded = {each.verdict.source_sha256 for each in judged if each.verdict.reward is not None}
    right = [each for each in judged if each.verdict.correct]
    return right[-1] if right and right[-1].verdict.source_sha256 not in rewarded else None


def _tell(stream: Stream, text: str) -> None:
    stream.emit(ev.StageEvent(part="profile", text=text))
