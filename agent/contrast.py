"""Contrast: two of the agent's own earlier variants side by side, with what the judge measured, before its next attempt.

CUDA-L1 (arXiv 2507.14111) puts two earlier implementations with their scores into the prompt and asks why one is faster before
it asks for the next. They are drawn from two buckets of score, a bucket the likelier the better its mean (a softmax), and in
a bucket each is as likely. Here the variants are the session's own attempts and the scores are the judge's. One of the two is
what the agent did last. The draw is seeded with what it is from, so that a session can be told again.
"""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agent.ranking import best_of
from agent.state import Judged

LEAST_ATTEMPTS = 2
"""Contrast begins past the second attempt: before it there is nothing to compare."""
CLEARLY = 1.1
"""A bucket reaches from its fastest variant down to what is this factor slower."""
TEMPERATURE = 0.2
"""Of the softmax, in logarithms of ratios to eager: a bucket of twice the ratio is drawn 32 times as often."""
_LONGEST = 6_000
"""Characters of code that are shown, about 2,000 tokens: what the model still remembers of its variants need not be whole."""
_CONTEXT_LINES = 2

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Contrast:
    """What is shown: the numbers of the slower and the faster attempt, and the text."""

    attempts: tuple[int, int]
    text: str


def contrast_of(
    judged: Sequence[Judged], shown: Sequence[tuple[int, ...]], files: Callable[[Mapping[str, str]], Files]
) -> Contrast | None:
    """Return the two variants to compare before the next attempt, or None where there is nothing new to learn.

    The last verdict's variant is compared with one drawn from the slower buckets where it is the best, and from the faster ones
    where it is in a lower one than the best: so each verdict gives one comparison at most. Two buckets are compared once.

    Args:
        judged: The session's attempts, in order.
        shown: Numbers of the attempts that were compared already.
        files: Returns the bytes of an attempt's files.
    """
    scored = {_source(each): each for each in judged if each.verdict.reward is not None and _ratio(each) > 0}
    best = best_of(scored.values())
    latest = scored.get(_source(judged[-1])) if len(judged) >= LEAST_ATTEMPTS else None
    if best is None or latest is None:
        return None
    buckets = _buckets(scored.values())
    own = next(number for number, bucket in enumerate(buckets) if latest in bucket)
    if latest is not best and best in buckets[own]:
        return None
    place = {_source(each): number for number, bucket in enumerate(buckets) for each in bucket}
    sources = {each.attempt: _source(each) for each in judged}
    compared = [{place.get(sources[number]) for number in pair} for pair in shown]
    others = range(own + 1, len(buckets)) if latest is best else range(own)
    other = _drawn([buckets[number] for number in others if {number, own} not in compared], seed="\n".join(scored))
    if other is None:
        return None
    slower, faster = sorted((other, latest), key=_ratio)
    return Contrast((slower.attempt, faster.attempt), _text(slower, faster, files(slower.files), files(faster.files)))


def gained_after(judged: Sequence[Judged], shown: Sequence[tuple[int, ...]]) -> list[bool]:
    """Return for each comparison that new code was judged after whether that was faster than all before it.

    Args:
        judged: The session's attempts, in order.
        shown: Numbers of the attempts that were compared, of each comparison; the later one was the last attempt then.
    """
    gained = []
    for pair in shown:
        before = [each for each in judged if each.attempt <= max(pair)]
        known = {_source(each) for each in before}
        new = next((each for each in judged[len(before) :] if _source(each) not in known), None)
        if new is not None:
            gained.append(best_of([*before, new]) is new)
    return gained


def _buckets(scored: Iterable[Judged]) -> list[list[Judged]]:
    """Return variants in buckets of about equal speed, the fastest first."""
    buckets: list[list[Judged]] = []
    for each in sorted(scored, key=_ratio, reverse=True):
        if buckets and _ratio(each) * CLEARLY >= _ratio(buckets[-1][0]):
            buckets[-1].append(each)
        else:
            buckets.append([each])
    return buckets


def _drawn(buckets: Sequence[Sequence[Judged]], seed: str) -> Judged | None:
    """Draw a bucket by the softmax of its mean, and a variant of it; None where there is none."""
    if not buckets:
        return None
    weights = [math.exp(fmean(math.log(_ratio(each)) for each in bucket) / TEMPERATURE) for bucket in buckets]
    chance = random.Random(seed)  # noqa: S311  # no secret
    return chance.choice(chance.choices(buckets, weights)[0])


def _source(judged: Judged) -> str:
    """Return what tells sources apart, whatever their comments and layout."""
    return judged.verdict.source_sha256 or str(judged.attempt)


def _ratio(judged: Judged) -> float:
    """Return how many times eager a correct attempt was seen to be, or 0."""
    gain = judged.verdict.over_eager if judged.verdict.correct else None
    return gain.ratio if gain else 0.0


def _text(slower: Judged, faster: Judged, before: Files, after: Files) -> str:
    lines = "\n".join(_difference(before, after))
    code = (
        lines if len(lines) <= _LONGEST else lines[:_LONGEST].rpartition("\n")[0] + "\n[... the rest is left out ...]"
    )
    return (
        "Before the next attempt, compare two of your own variants:\n"
        f"- {_score(slower)}\n- {_score(faster)}\n"
        f"What changes from attempt {slower.attempt} to attempt {faster.attempt}:\n\n{code}\n\n"
        "First say in a few sentences why the one is faster, what limits it now, and which technique neither of them uses. "
        "Then make the next attempt on that ground, with the gain you expect; or end, if nothing is left to gain."
    )


def _score(judged: Judged) -> str:
    profile = judged.verdict.profile
    assert profile is not None  # only what was timed is compared
    gains = [
        f"{gain.ratio:.2f} times {name} ({gain.low:.2f} to {gain.high:.2f})" for name, gain in profile.speedup.items()
    ]
    return f"attempt {judged.attempt}: reward {judged.verdict.reward}, {profile.device_us:.1f} us, {', '.join(gains)}"


def _difference(before: Files, after: Files) -> Iterator[str]:
    """Yield the unified difference of all files; a file that only one of them has is whole."""
    for path in sorted(before.keys() | after.keys()):
        old, new = (side.get(path, b"").decode(errors="replace").splitlines() for side in (before, after))
        yield from difflib.unified_diff(old, new, path, path, n=_CONTEXT_LINES, lineterm="")
