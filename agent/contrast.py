"""Contrast: two of the agent's own earlier variants side by side, with what the judge measured, before its next attempt.

CUDA-L1 (arXiv 2507.14111) puts two earlier implementations with their scores into the prompt, drawn from different buckets of
score, and asks why one is faster before it asks for the next. Here the variants are the session's own attempts, the scores
are the judge's, and the choice is the same whenever it is made from the same attempts, so that a session can be told again.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.state import Judged

LEAST_ATTEMPTS = 2
"""Contrast begins past the second attempt: before it there is nothing to compare."""
_BUCKET = math.log(1.1)
"""Width of a bucket of score, in the logarithm of the ratio to eager: within 10 % two variants are equally fast."""
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

    The faster one is the best so far; the other is the fastest of another bucket that was not compared with it yet.

    Args:
        judged: The session's attempts, in order.
        shown: Numbers of the attempts that were compared already.
        files: Returns the bytes of an attempt's files.
    """
    if len(judged) < LEAST_ATTEMPTS:
        return None
    scored = _scored(judged)
    if len(scored) < LEAST_ATTEMPTS:
        return None
    best, *others = sorted(scored.values(), key=_ratio, reverse=True)
    for other in others:
        if _bucket(other) != _bucket(best) and (other.attempt, best.attempt) not in shown:
            return Contrast((other.attempt, best.attempt), _text(other, best, files(other.files), files(best.files)))
    return None


def _scored(judged: Sequence[Judged]) -> dict[str, Judged]:
    """Return the correct attempts that were timed, the last verdict of each source, by its hash."""
    timed = (each for each in judged if each.verdict.correct and each.verdict.reward is not None and _ratio(each) > 0)
    return {each.verdict.source_sha256 or str(each.attempt): each for each in timed}


def _ratio(judged: Judged) -> float:
    profile = judged.verdict.profile
    gain = profile.speedup.get("eager") if profile else None
    return gain.ratio if gain else 0.0


def _bucket(judged: Judged) -> int:
    return math.floor(math.log(_ratio(judged)) / _BUCKET)


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
