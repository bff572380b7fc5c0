"""Answers as token ids, joined into stretches in which every prompt goes on from the one before and its answer.

A stretch follows token ids, not text: a prompt that does not begin with the ids of the prompt and the answer before begins
a new one, in which all that was copied is prompt. So it is where the conversation was compacted, and where a server's
template writes an answer otherwise than it was sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agent.exports.trajectory import Trajectory, Turn


@dataclass(frozen=True)
class Written:
    """One answer as tokens.

    Attributes:
        turn: The answer.
        prompt: Token ids of all it was asked with.
        ids: Those that the model wrote.
        logprobs: Theirs, one to one and finite; null where they are not known.
    """

    turn: Turn
    prompt: Sequence[int]
    ids: Sequence[int]
    logprobs: Sequence[float] | None


@dataclass(frozen=True)
class Span:
    """Where an answer lies in a stretch's response: from ``start`` to before ``end``."""

    turn: Turn
    start: int
    end: int


@dataclass
class Stretch:
    """Token ids that go on from one another.

    Attributes:
        prompt: What the first answer was asked with.
        response: All that came after: answers, and what was told between them.
        mask: 1 where the model wrote the token of the response, 0 where it was told it.
        logprobs: Of the response; 0 where the mask is, NaN where they are not known.
        spans: Whose the answers are, in order.
    """

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def take(self, written: Written) -> bool:
        """Add an answer, if its prompt goes on from what is here; tell whether it does."""
        before = self.prompt + self.response
        if list(written.prompt[: len(before)]) != before:
            return False
        told, count = list(written.prompt[len(before) :]), len(written.ids)
        start = len(self.response) + len(told)
        self.response += [*told, *written.ids]
        self.mask += [0] * len(told) + [1] * count
        self.logprobs += [0.0] * len(told) + list(written.logprobs or [math.nan] * count)
        self.spans.append(Span(written.turn, start, len(self.response)))
        return True

    def ended_by_the_model(self) -> bool:
        """Cut off what the model did not write at the end; tell whether it wrote anything."""
        length = len(self.mask)
        while length and not self.mask[length - 1]:
            length -= 1
        del self.response[length:], self.mask[length:], self.logprobs[length:]
        self.spans = [span for span in self.spans if span.start < length]
        return length > 0


def joined(answers: Iterable[Written | None]) -> list[Stretch]:
    """Return the stretches of a session's answers, each ending with a token of the model's; a null answer ends one."""
    found: list[Stretch] = []
    current: Stretch | None = None
    for written in answers:
        if written is None:
            current = None
        elif current is None or not current.take(written):
            current = Stretch(list(written.prompt))
            current.take(written)
            found.append(current)
    return [stretch for stretch in found if stretch.ended_by_the_model()]


def served(trajectory: Trajectory) -> Iterator[Written | None]:
    """Yield a session's answers in the token ids that the server gave, null for one that it gave none for."""
    for turn, prompt in zip(trajectory.turns, trajectory.prompt_ids(), strict=True):
        ids = turn.event.token_ids
        yield (
            None if prompt is None or ids is None else Written(turn, prompt, ids, _whole(turn.event.logprobs, len(ids)))
        )


def _whole(logprobs: Sequence[float | None] | None, count: int) -> list[float] | None:
    """Return log-probabilities if there is a finite one for every token."""
    finite = [value for value in logprobs or () if isinstance(value, int | float) and math.isfinite(value)]
    return finite if logprobs is not None and len(finite) == len(logprobs) == count else None
