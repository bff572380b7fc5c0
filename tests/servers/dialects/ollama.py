"""Ollama's chat: one JSON object a line, tool calls whole and without ids, arguments as objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.servers.provider import Dialect, Reply, counted, pieces


class Ollama(Dialect):
    """The dialect."""

    content_type = "application/x-ndjson"
    unanswered = "/api/show"

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        head = {"model": request["model"], "created_at": "2026-01-01T00:00:00.000000Z"}
        messages: list[dict[str, Any]] = [{"content": "", "thinking": piece} for piece in pieces(reply.reasoning, 8)]
        messages += [{"content": piece} for piece in pieces(reply.text, 8)]
        for call in reply.calls:
            messages.append(
                {"content": "", "tool_calls": [{"function": {"name": call.name, "arguments": call.arguments}}]}
            )
        for message in messages:
            yield _line({**head, "message": {"role": "assistant", **message}, "done": False})
        if reply.finish == "none":
            return
        last = {
            **head,
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": reply.finish or "stop",
        }
        if reply.tokens is not None:
            last |= {"prompt_eval_count": counted(reply.tokens, request), "eval_count": reply.tokens.output}
        yield _line({**last, "total_duration": 1, "load_duration": 1})

    def failure(self, reply: Reply) -> bytes:
        return _line(self.error(reply))

    def error(self, reply: Reply) -> dict[str, Any]:
        return {"error": reply.error.get("message", "scripted")}

    def refusal(self, request: dict[str, Any]) -> Reply | None:
        """Refuse arguments that are no objects, as its decoder does."""
        for message in request["messages"]:
            for call in message.get("tool_calls") or ():
                if not isinstance(call["function"]["arguments"], dict):
                    return Reply(status=400, error={"message": "json: cannot unmarshal string into arguments"})
        return None


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"
