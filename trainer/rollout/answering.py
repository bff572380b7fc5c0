"""One answer on its way: from the tokens that are drawn to OpenAI's chunks, with token ids and log-probabilities."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from agent.server_card import FIELD
from sandbox.errors import UsageError
from trainer.rollout.answer_text import AnswerText, CallText, call_json
from trainer.rollout.asked import Asked
from trainer.rollout.detokenizing import Detokenizer
from trainer.rollout.generation import Request, Token
from trainer.rollout.served import ServedPolicy

_SILENT_TOKENS = 64
"""So many tokens go out at the latest, also where nothing can be shown yet, as within a tool call."""


class Answer:
    """What was drawn, what that says, and what is still to be sent.

    Args:
        served: The policy that answers.
        asked: What it answers.

    Raises:
        UsageError: The prompt is longer than the context.
    """

    def __init__(self, served: ServedPolicy, asked: Asked) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(8)}"
        self._served = served
        self._asked = asked
        self._tokens: list[Token] = []
        self._unsent = 0
        self._words = Detokenizer(served.policy.tokenizer)
        self._said = AnswerText()
        self._text = ""
        self._told = 0
        self._stopped = False
        prompt = served.conversations.prompt(asked.messages, asked.tools)
        room = served.settings.context - len(prompt)
        if room < 1:
            raise UsageError(
                f"This model's maximum context length is {served.settings.context} tokens, and the prompt has {len(prompt)}."
            )
        most = min(room, asked.sampling.max_tokens or room)
        self._told_of_prompt: dict[str, Any] = {FIELD: served.identity()} | (
            {"prompt_token_ids": prompt} if asked.ids_wanted else {}
        )
        self._request = served.generator.submit(Request(prompt, asked.sampling, most))

    def chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks of the stream, the first of which tells of the prompt, up to the last with usage."""
        tokens = self._request.tokens()
        first = next(tokens)  # before anything is sent: what cannot be answered gets a status of its own
        yield self._chunk({"role": "assistant", "content": ""}, told=self._told_of_prompt)
        for token in itertools.chain([first], tokens):
            yield from map(self._piece, self._take(token))
            if self._stopped:
                self._request.cancelled = True
                break
            if len(self._tokens) - self._unsent >= _SILENT_TOKENS:
                yield self._chunk({"content": ""})
        left = [] if self._stopped else [*self._heard(self._words.rest(), last=True), *self._said.end()]
        yield from map(self._piece, left)
        self._remember()
        yield self._chunk({}, self._finish_reason)
        if self._asked.usage_wanted:
            yield {**self._head, "choices": [], "usage": self._usage}

    def whole(self) -> dict[str, Any]:
        """Return the answer in one piece."""
        for _ in self.chunks():
            pass
        choice = {"index": 0, "message": self._said.message(self.id), "finish_reason": self._finish_reason}
        choice |= self._told_of(self._tokens)
        head = {**self._head, "object": "chat.completion", **self._told_of_prompt}
        return {**head, "choices": [choice], "usage": self._usage}

    @property
    def _head(self) -> dict[str, Any]:
        name = self._served.settings.name
        return {"id": self.id, "object": "chat.completion.chunk", "created": int(time.time()), "model": name}

    @property
    def _finish_reason(self) -> str:
        ended = self._stopped or (bool(self._tokens) and self._tokens[-1].id in self._served.ends)
        if not ended:
            return "length"
        return "tool_calls" if self._said.calls else "stop"

    @property
    def _usage(self) -> dict[str, Any]:
        read, written = len(self._request.prompt), len(self._tokens)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": self._request.cached},
        }

    def _take(self, token: Token) -> Iterator[str | CallText]:
        self._tokens.append(token)
        if token.id not in self._served.ends:
            yield from self._heard(self._words.add(token.id))

    def _heard(self, text: str, *, last: bool = False) -> Iterator[str | CallText]:
        """Yield what a piece of text says, up to a stop string if there is one; what may begin one waits for more."""
        self._text += text
        stops = self._asked.sampling.stop
        found = [at for stop in stops if (at := self._text.find(stop, self._told)) >= 0]
        self._stopped = bool(found)
        begun = 0 if last else max((_begun(self._text, stop) for stop in stops), default=0)
        until = min(found) if found else len(self._text) - begun
        yield from self._said.add(self._text[self._told : until])
        self._told = until
        if found:
            yield from self._said.end()

    def _piece(self, said: str | CallText) -> dict[str, Any]:
        if isinstance(said, str):
            return self._chunk({"content": said})
        index = len(self._said.calls) - 1
        return self._chunk({"tool_calls": [{"index": index, **call_json(said, f"{self.id}_{index}")}]})

    def _chunk(
        self, delta: dict[str, Any], finish: str | None = None, told: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        new, self._unsent = self._tokens[self._unsent :], len(self._tokens)
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **self._told_of(new)}
        return {**self._head, **(told or {}), "choices": [choice]}

    def _told_of(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Return what was asked for of these tokens."""
        told: dict[str, Any] = {}
        if self._asked.ids_wanted:
            told["token_ids"] = [token.id for token in tokens]
        if self._asked.logprobs_wanted:
            texts = self._served.policy.tokenizer.convert_ids_to_tokens([token.id for token in tokens])
            content = [
                {"token": text, "logprob": token.logprob, "bytes": None, "top_logprobs": []}
                for text, token in zip(texts, tokens, strict=True)
            ]
            told["logprobs"] = {"content": content}
        return told

    def _remember(self) -> None:
        ids = [*self._request.prompt, *(token.id for token in self._tokens)]
        if not self._stopped:  # what was drawn says more than what was sent
            message = self._said.message(self.id)
            self._served.conversations.remember(self._asked.messages, self._asked.tools, message, ids)

    def give_up(self) -> None:
        """Let nothing more be drawn: nobody listens."""
        self._request.cancelled = True


def _begun(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a stop string."""
    return next((size for size in range(len(stop) - 1, 0, -1) if text.endswith(stop[:size])), 0)
