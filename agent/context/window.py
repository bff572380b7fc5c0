"""The model's context as the loop uses it: is there room for the next request, and if not, make some."""

from __future__ import annotations

from collections.abc import Callable

from agent import events as ev
from agent.context.compaction import compacted
from agent.context.counting import estimate
from agent.context.summary import Files
from agent.model import ContextTooLong, Model
from agent.redact import Redactor
from agent.stream import Stream
from sandbox.errors import UsageError

ANSWER_RESERVE = 8_192
"""Tokens of the context kept free for the answer."""
NEAR = 0.9
"""Room is made when a request takes more than this share of the budget: what is new in it is only estimated."""
REFERENCE = 16
"""Characters of a blob's hash by which the model asks for it."""


class Window:
    """Keeps a session's requests inside the budget.

    Args:
        model: Its own limit wins if it is smaller.
        limit: Tokens of request and answer together.
        files: Returns the workspace's files as they are.
    """

    def __init__(self, stream: Stream, redact: Redactor, model: Model, limit: int, files: Callable[[], Files]) -> None:
        self._stream = stream
        self._redact = redact
        self._model = model
        self._limit = limit
        self._files = files

    @property
    def budget(self) -> int:
        """Tokens of the longest request; one that the provider called too long is a limit too."""
        limit = min(self._limit, self._model.context_tokens or self._limit)
        return min(limit - ANSWER_RESERVE, self._stream.state.refused_tokens or limit)

    def make_room(self, refused: ContextTooLong | None = None) -> None:
        """Shorten the conversation if it is near the budget, or if the provider refused it for its length.

        Raises:
            ContextTooLong: What must be kept does not fit.
        """
        state = self._stream.state
        used, budget = state.tokens, self.budget
        if refused is None and used <= budget * NEAR:
            return
        budget = min(budget, used) if refused else budget
        if len(state.messages) > 2 and budget > 0:
            told = compacted(state, budget, self._stream.files, self._now(), self._keep, self._redact)
            after = estimate(told) + estimate(state.tools)
            if after < used and after <= budget * NEAR:
                self._stream.emit(
                    ev.Compacted(messages=told, tokens_before=used, tokens_after=after, refused=refused is not None)
                )
                return
        if refused is not None:
            raise refused
        if used > budget:
            raise ContextTooLong(
                f"The conversation has about {used:,} tokens, the budget is {budget:,}, and what must be kept of it "
                "(task, best attempt, the developer's words, last turn) leaves nothing to take out."
            )

    def _now(self) -> Files:
        try:
            return self._files()
        except UsageError:  # what nobody could judge is not quoted either
            return {}

    def _keep(self, text: str) -> str:
        return self._stream.blob(text.encode(errors="replace"))[:REFERENCE]
