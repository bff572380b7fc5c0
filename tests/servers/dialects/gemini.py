"""Google's generateContent, streamed: whole candidates a chunk, function calls in one piece, thoughts with signatures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.servers.provider import Dialect, Reply, counted, pieces, sse

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class Gemini(Dialect):
    """The dialect. Function calls have no id, as with models before Gemini 3."""

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        head = {"modelVersion": request["model"], "responseId": "r1"}
        parts = [{"text": piece, "thought": True} for piece in pieces(reply.reasoning, 8)]
        parts += [{"text": piece} for piece in pieces(reply.text, 8)]
        for call in reply.calls:
            part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
            parts.append({**part, "thoughtSignature": call.signature} if call.signature else part)
        for part in parts:
            yield sse({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], **head})
        last: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0}
        chunk: dict[str, Any] = {"candidates": [{**last, "finishReason": reply.finish or "STOP"}], **head}
        if reply.tokens is not None:
            chunk["usageMetadata"] = self._usage(reply, request)
        yield sse(chunk)

    def _usage(self, reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
        """Count as Google does: the candidates without their thoughts."""
        assert reply.tokens is not None
        prompt, said = counted(reply.tokens, request), reply.tokens.output - reply.tokens.reasoning
        usage = {"promptTokenCount": prompt, "candidatesTokenCount": said}
        usage["totalTokenCount"] = prompt + reply.tokens.output
        if reply.tokens.cached:
            usage["cachedContentTokenCount"] = reply.tokens.cached
        if reply.tokens.reasoning:
            usage["thoughtsTokenCount"] = reply.tokens.reasoning
        return usage

    def failure(self, reply: Reply) -> bytes:
        return sse(self.error(reply))

    def error(self, reply: Reply) -> dict[str, Any]:
        code = reply.status if reply.status != 200 else 503
        return {
            "error": {"code": code, "message": "scripted", "status": _STATUSES.get(code, "INTERNAL"), **reply.error}
        }

    def refusal(self, request: dict[str, Any]) -> Reply | None:
        """Refuse a function response that follows no function call."""
        called = 0
        for part in (part for content in request["contents"] for part in content["parts"]):
            called += ("functionCall" in part or "function_call" in part) - (
                "functionResponse" in part or "function_response" in part
            )
            if called < 0:
                return Reply(status=400, error={"message": "function response turn must follow a function call turn"})
        return None
