"""Contrast: two of the agent's own earlier variants side by side, with what the judge measured, before its next attempt.

CUDA-L1 (arXiv 2507.14111) puts two earlier implementations with their scores into the prompt, drawn from different buckets of
score, and asks why one is faster before it asks for the next. Here the variants are the session's own attempts, the scores
are the judge's, and the choice is the same whenever it is made from the same attempts, so that a session can be told again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.ranking import best_of
from agent.state import Judged

LEAST_ATTEMPTS = 2
"""Contrast begins past the second attempt: before it there is nothing to compare."""
CLEARLY = 1.1
"""Variants whose ratios to eager differ by less than this factor are equally fast: of one bucket, as the paper calls it."""
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

    A new best one is compared with the fastest that is clearly slower, and a new one that is clearly slower with the best: so
    each verdict gives one comparison at most, and none where these two sources were compared before.

    Args:
        judged: The session's attempts, in order.
        shown: Numbers of the attempts that were compared already.
        files: Returns the bytes of an attempt's files.
    """
    scored = {_source(each): each for each in judged if each.verdict.reward is not None and _ratio(each) > 0}
    best = best_of(scored.values())
    if len(judged) < LEAST_ATTEMPTS or best is None:
        return None
    latest = scored.get(_source(judged[-1]))
    slower = [each for each in scored.values() if _ratio(each) * CLEARLY < _ratio(best)]
    other = max(slower, key=_ratio, default=None) if latest is best else latest
    if other is None or other not in slower:
        return None
    sources = {each.attempt: _source(each) for each in judged}
    if {_source(other), _source(best)} in [{sources[number] for number in pair} for pair in shown]:
        return None
    return Contrast((other.attempt, best.attempt), _text(other, best, files(other.files), files(best.files)))


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
