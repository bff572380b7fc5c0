"""Token ids of a conversation, kept without saying the same ones twice, and held against what the server counted.

A prompt mostly begins with the prompt and the answer before it, so a turn stores how many of those tokens it begins with
and the ones that come after. Where the conversation was compacted, or a server's template writes an answer differently
than it was sampled, the shared beginning is shorter, which is just what a trainer must know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from agent.events import Event, ModelTurn


class PromptTokens:
    """Follows the answers of a session; tells each prompt by what it adds to the one before."""

    def __init__(self) -> None:
        self._before: list[int] = []

    def shorten(self, ids: Sequence[int]) -> tuple[int, list[int]]:
        """Return how many tokens of the last prompt and answer these begin with, and those that come after."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._before, ids, strict=False)))
        return same, list(ids[same:])

    def lengthen(self, event: ModelTurn) -> list[int] | None:
        """Return a stored turn's whole prompt, and remember it for the next; null if it has none."""
        if event.prompt_token_ids is None:
            return None
        prompt = self._before[: event.prompt_tokens_kept] + event.prompt_token_ids
        self._before = prompt + (event.token_ids or [])
        return prompt


def whole_prompts(events: Iterable[Event]) -> Iterator[tuple[ModelTurn, list[int] | None]]:
    """Yield every answer of a session with all the token ids of its prompt, or null where the server gave none."""
    tokens = PromptTokens()
    for event in events:
        if isinstance(event, ModelTurn):
            yield event, tokens.lengthen(event)


def doubts(
    prompt: Sequence[int] | None, ids: Sequence[int], logprobs: Sequence[float], usage: dict[str, int]
) -> dict[str, str]:
    """Return which of a server's token ids and log-probabilities cannot be right, and why: ``prompt``, ``ids``, ``logprobs``.

    Args:
        prompt: Token ids of the prompt, or null.
        ids: Those of the answer; empty where there are none.
        logprobs: Likewise.
        usage: In our vocabulary; empty if the server counted nothing.
    """
    found = {}
    if prompt is not None and usage and len(prompt) != usage["input_tokens"]:
        found["prompt"] = f"{len(prompt)} prompt token ids came, and the server counted {usage['input_tokens']}"
    if ids and usage and len(ids) != usage["output_tokens"]:
        found["ids"] = f"{len(ids)} token ids came, and the server counted {usage['output_tokens']}"
    against = usage["output_tokens"] if usage and not ids else len(ids)
    if logprobs and against and len(logprobs) != against:
        found["logprobs"] = f"{len(logprobs)} log-probabilities came for {against} tokens"
    return found
