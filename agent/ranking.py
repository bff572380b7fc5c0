"""Which of a session's attempts is the best, the same for the engine and for the screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from sandbox.verdict import Verdict


class Ranked(Protocol):
    """An attempt: its files (paths to blob hashes) and its verdict."""

    @property
    def files(self) -> Mapping[str, str]:
        """Paths of the workspace and the hashes of their contents."""

    @property
    def verdict(self) -> Verdict:
        """What judging them left."""


R = TypeVar("R", bound=Ranked)
Owner = TypeVar("Owner")


def best_of(attempts: Iterable[R]) -> R | None:
    """Return the best correct attempt: by reward, then by its ratio to eager; of equal ones the first.

    Among attempts that no reward could be given, the last one: the agent went on from the others, and nothing else tells.

    Where the same code was judged more than once, be it with other comments or laid out anew, the last full verdict
    counts, else the last one: who measures often enough must not be given the luckiest time. But one without a reward,
    because the machine was disturbed, never takes the place of one that has it.
    """
    latest: dict[object, R] = {}
    for judged in attempts:
        code = judged.verdict.source_sha256 or frozenset(judged.files.items())
        if code not in latest or _replaces(judged.verdict, latest[code].verdict):
            latest[code] = judged
    correct = [judged for judged in latest.values() if judged.verdict.correct]
    rewarded = [judged for judged in correct if judged.verdict.reward is not None]
    return max(rewarded, key=lambda judged: _rank(judged.verdict), default=correct[-1] if correct else None)


def best_owned(owned: Iterable[tuple[Owner, R]]) -> tuple[Owner, R] | None:
    """Return the best attempt of several owners, such as sessions, with its owner, by the rule of ``best_of``."""
    pairs = {id(attempt): (owner, attempt) for owner, attempt in owned}
    best = best_of([attempt for _, attempt in pairs.values()])
    return None if best is None else pairs[id(best)]


def _replaces(later: Verdict, earlier: Verdict) -> bool:
    if (later.reward is None) != (earlier.reward is None):
        return earlier.reward is None
    return later.tier == "full" or earlier.tier == "quick"


def _rank(verdict: Verdict) -> tuple[int, float]:
    eager = verdict.over_eager
    return (verdict.reward or 0, eager.ratio if eager else 0.0)
