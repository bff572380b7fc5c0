"""OpenAI's chat completions, and what servers that imitate them make of it.

Each quirk is one that servers were seen to have; see ``Quirks``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.servers.provider import Dialect, Reply, counted, pieces, sse


@dataclass(frozen=True)
class Quirks:
    """How a server departs from OpenAI's.

    Attributes:
        reasoning_key: What the reasoning is called in a delta; empty to hide it, as OpenAI does.
        ids: Whether a tool call has its id: ``given``, ``missing``, or ``same`` for every call of an answer.
        whole_calls: Tool calls come in one piece, all with index 0.
        object_arguments: And their arguments as an object, not as text.
        letters: Everything comes letter by letter, names and ids repeated in every piece of a call.
        comments: Comments are sent between the events, as proxies do to keep a connection alive.
        finish: The finish reason, whatever the answer.
        empty_choices: Chunks without choices come between.
        refuses: Fields of a request that are answered with 400.
    """

    reasoning_key: str = "reasoning_content"
    ids: str = "given"
    whole_calls: bool = False
    object_arguments: bool = False
    letters: bool = False
    comments: bool = False
    finish: str = ""
    empty_choices: bool = False
    refuses: tuple[str, ...] = ()


PLAIN = Quirks()


class OpenAI(Dialect):
    """The dialect; a reasoning model of OpenAI's own has ``Quirks(reasoning_key="")``."""

    def __init__(self, quirks: Quirks = PLAIN, models: dict[str, Any] | None = None) -> None:
        self.quirks = quirks
        self.model_list = models

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
        for delta in self.deltas(reply):
            if self.quirks.comments:
                yield b": keep-alive\n\n"
            if self.quirks.empty_choices:
                yield sse({**head, "choices": []})
            yield sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **reply.extra}]})
        finish = self.quirks.finish or reply.finish or ("tool_calls" if reply.calls else "stop")
        if finish == "none":
            return
        yield sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if reply.tokens is not None and (request.get("stream_options") or {}).get("include_usage"):
            yield sse({**head, "choices": [], "usage": self.usage(reply, request)})
        yield b"data: [DONE]\n\n"

    def usage(self, reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
        assert reply.tokens is not None
        prompt = counted(reply.tokens, request)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": reply.tokens.output}
        usage["total_tokens"] = prompt + reply.tokens.output
        if reply.tokens.cached:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.tokens.cached}
        if reply.tokens.reasoning:
            usage["completion_tokens_details"] = {"reasoning_tokens": reply.tokens.reasoning}
        return usage

    def deltas(self, reply: Reply) -> Iterator[dict[str, Any]]:
        size = 1 if self.quirks.letters else 8
        yield {"role": "assistant", "content": ""}
        if self.quirks.reasoning_key:
            yield from ({self.quirks.reasoning_key: piece} for piece in pieces(reply.reasoning, size))
        yield from ({"content": piece} for piece in pieces(reply.text, size))
        yield from self._whole_calls(reply) if self.quirks.whole_calls else self._calls(reply)

    def _id(self, index: int, name: str, given: str) -> dict[str, str]:
        names = {"given": given or f"call_{index}_{name}", "same": "call_0"}
        return {"id": names[self.quirks.ids]} if self.quirks.ids != "missing" else {}

    def _whole_calls(self, reply: Reply) -> Iterator[dict[str, Any]]:
        for index, call in enumerate(reply.calls):
            arguments = call.arguments if self.quirks.object_arguments else call.text
            function = {"name": call.name, "arguments": arguments}
            entry = {"index": 0, "type": "function", **self._id(index, call.name, call.id), "function": function}
            yield {"tool_calls": [entry]}

    def _calls(self, reply: Reply) -> Iterator[dict[str, Any]]:
        """Each call's arguments in three pieces, those of all calls interleaved."""
        bodies = []
        for index, call in enumerate(reply.calls):
            head = {"index": index, "type": "function", **self._id(index, call.name, call.id)}
            yield {"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]}
            size = 1 if self.quirks.letters else max(1, len(call.text) // 3)
            again = {**head, "function": {"name": call.name}} if self.quirks.letters else {"index": index}
            bodies.append((again, pieces(call.text, size)))
        for step in range(max((len(body) for _, body in bodies), default=0)):
            for head, body in bodies:
                if step < len(body):
                    function = {**head.get("function", {}), "arguments": body[step]}  # type: ignore[dict-item]
                    yield {"tool_calls": [{**head, "function": function}]}

    def failure(self, reply: Reply) -> bytes:
        return sse({"error": reply.error or {"message": "scripted", "type": "server_error", "code": 500}})

    def error(self, reply: Reply) -> dict[str, Any]:
        return {"error": reply.error or {"message": "scripted", "type": "server_error"}}

    def refusal(self, request: dict[str, Any]) -> Reply | None:
        for name in self.quirks.refuses:
            if name in request:
                said = f"Unsupported parameter: '{name}' is not supported with this model."
                error = {
                    "message": said,
                    "type": "invalid_request_error",
                    "param": name,
                    "code": "unsupported_parameter",
                }
                return Reply(status=400, error=error)
        for message in request["messages"]:
            for call in message.get("tool_calls") or ():
                json.loads(call["function"]["arguments"])
        return None
