"""Anthropic's messages: named events, content blocks with an index each, tool input as pieces of JSON, signed thinking."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.servers.provider import Dialect, Reply, Tokens, counted, pieces, sse

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
BREAKPOINTS = 4


class Anthropic(Dialect):
    """The dialect. A request that the provider would not take is refused in its words; see ``refusal``."""

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        tokens = reply.tokens or Tokens()
        usage = {
            "input_tokens": counted(tokens, request) - tokens.cached - tokens.written,
            "cache_creation_input_tokens": tokens.written,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens": 1,
        }
        start = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": []}
        start |= {"stop_reason": None, "stop_sequence": None}
        yield self._event("message_start", message={**start, "usage": usage})
        yield self._event("ping")
        for index, block in enumerate(self._blocks(reply)):
            yield from self._block(index, *block)
        if reply.finish == "none":
            return
        stop = reply.finish or ("tool_use" if reply.calls else "end_turn")
        delta = {"stop_reason": stop, "stop_sequence": None}
        yield self._event("message_delta", delta=delta, usage={"output_tokens": tokens.output})
        yield self._event("message_stop")

    def _blocks(self, reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Yield how each content block starts and its deltas."""
        if reply.reasoning:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.reasoning, 8)]
            deltas.append({"type": "signature_delta", "signature": reply.signature})
            yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
        if hidden := reply.extra.get("redacted"):
            yield {"type": "redacted_thinking", "data": hidden}, []
        if reply.text:
            yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces(reply.text, 8)]
        for index, call in enumerate(reply.calls):
            start = {"type": "tool_use", "id": call.id or f"toolu_{index}", "name": call.name, "input": {}}
            body = pieces(call.text, 7) if call.arguments else []
            yield start, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *body]]

    def _block(self, index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[bytes]:
        yield self._event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield self._event("content_block_delta", index=index, delta=delta)
        yield self._event("content_block_stop", index=index)

    @staticmethod
    def _event(kind: str, **data: Any) -> bytes:
        return sse({"type": kind, **data}, kind)

    def failure(self, reply: Reply) -> bytes:
        return self._event("error", error=reply.error or {"type": "overloaded_error", "message": "Overloaded"})

    def error(self, reply: Reply) -> dict[str, Any]:
        error = {"type": _KINDS.get(reply.status, "api_error"), "message": "scripted", **reply.error}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def refusal(self, request: dict[str, Any]) -> Reply | None:
        """Refuse too many cache marks, calls without results, thinking without its signature or with a temperature."""
        blocks = [
            *(request.get("tools") or ()),
            *(system if isinstance(system := request.get("system") or [], list) else ()),
            *(b for m in request["messages"] if isinstance(m["content"], list) for b in m["content"]),
        ]
        marks = sum("cache_control" in block for block in blocks)
        if marks > BREAKPOINTS:
            return _refused(f"A maximum of {BREAKPOINTS} blocks with cache_control may be provided. Found {marks}.")
        if request.get("thinking") and request.get("temperature", 1) != 1:
            return _refused("`temperature` may only be set to 1 when thinking is enabled.")
        if any(block.get("type") == "thinking" and not block.get("signature") for block in blocks):
            return _refused("messages: `signature` in `thinking` block is required")
        for one, two in itertools.pairwise(request["messages"]):
            called = {b["id"] for b in _list(one) if b.get("type") == "tool_use"}
            answered = {b["tool_use_id"] for b in _list(two) if b.get("type") == "tool_result"}
            if called != answered:
                return _refused("messages: `tool_use` ids were found without `tool_result` blocks immediately after")
        return None


def _list(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message["content"] if isinstance(message["content"], list) else []


def _refused(said: str) -> Reply:
    return Reply(status=400, error={"message": said})
