"""vLLM's chat completions with token ids and log-probabilities, which come even where a piece holds no text.

One token is one character here, its id the character's code. What a trainer's server tells of itself is in ``warpsmith``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.servers.dialects.openai import OpenAI, Quirks
from tests.servers.provider import Reply, sse

MODEL_LENGTH = 32_768
NEWER = Quirks(reasoning_key="reasoning")
"""What older versions call ``reasoning_content``."""


class VLLM(OpenAI):
    """The dialect.

    Args:
        told: The ``warpsmith`` object of the list of models and of every answer; empty for a plain vLLM.
        quirks: How it departs from OpenAI's protocol.
    """

    def __init__(self, quirks: Quirks = NEWER, told: dict[str, Any] | None = None) -> None:
        card: dict[str, Any] = {"id": "tiny", "object": "model", "owned_by": "vllm", "max_model_len": MODEL_LENGTH}
        super().__init__(quirks, {"object": "list", "data": [{**card, **({"warpsmith": told} if told else {})}]})
        self.told = told

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        head: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        head["model"] = request["model"]
        ids, logs = request.get("return_token_ids"), request.get("logprobs")
        first = {**head, **({"prompt_token_ids": prompt_ids(request)} if ids else {})}
        if self.told:
            first["warpsmith"] = self.told
        given = 0
        for number, delta in enumerate(self.deltas(reply)):
            said = _said(delta)
            choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
            if ids:
                choice["token_ids"] = [ord(letter) for letter in said] or None
            if logs and said:
                choice["logprobs"] = {"content": [_logprob(letter) for letter in said]}
            given += len(said)
            yield sse({**(head if number else first), "choices": [choice | reply.extra]})
        finish = reply.finish or ("tool_calls" if reply.calls else "stop")
        end: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish, "stop_reason": None}
        if ids:
            end["token_ids"] = [2]
        if logs:
            end["logprobs"] = {"content": [_logprob("")]}
        yield sse({**head, "choices": [end]})
        if reply.tokens is not None:
            prompt = len(prompt_ids(request))
            usage = {"prompt_tokens": prompt, "completion_tokens": given + 1, "total_tokens": prompt + given + 1}
            yield sse({**head, "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"


def prompt_ids(request: dict[str, Any]) -> list[int]:
    """Return the tokens a request is said to amount to; a longer conversation begins with those of a shorter one."""
    return [ord(letter) for message in request["messages"] for letter in json.dumps(message)]


def _said(delta: dict[str, Any]) -> str:
    calls = delta.get("tool_calls") or ()
    texts = [delta.get(key) or "" for key in ("content", "reasoning", "reasoning_content")]
    return "".join([*texts, *(call["function"].get("name", "") + call["function"]["arguments"] for call in calls)])


def _logprob(letter: str) -> dict[str, Any]:
    return {"token": letter, "logprob": -0.25, "bytes": list(letter.encode()), "top_logprobs": []}
