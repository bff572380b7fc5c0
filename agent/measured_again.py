"""The best attempt of a run, measured again at its end: the best of many may only have been the luckiest."""

from __future__ import annotations

from agent import events as ev
from agent.judging import Judging
from agent.settings import RewardTier
from agent.stream import Stream

MOST = 3
"""How many attempts are measured again at most: one that falls back makes another one the best."""


async def measure_best_again(stream: Stream, judging: Judging, tier: RewardTier) -> None:
    """Judge the best attempt on fresh samples, if only a quick verdict says that it is the best.

    With tier ``quick`` such a verdict is reward enough, and only one that was the best among several is measured again. With
    ``correctness`` there are no samples.

    Raises:
        TaskError, EnvironmentFault: Nothing could be judged.
    """
    if tier == "correctness":
        return
    again = None
    for _ in range(MOST):
        best = stream.state.best
        if best is None or best.verdict.tier == "full":
            return
        timed = sum(judged.verdict.profile is not None for judged in stream.state.judged)
        if tier == "quick" and (timed == 1 or best is again):
            return
        text = f"measuring attempt {best.attempt}, the best so far, {'again' if tier == 'quick' else 'in full'}"
        stream.emit(ev.StageEvent(part="profile", text=text))
        again = await judging.attempt(stream.files(best.files), tier, fresh=tier == "quick")
