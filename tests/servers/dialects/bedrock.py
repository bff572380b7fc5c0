"""Amazon's converse, streamed: binary event messages with checksums, cache points as blocks of their own."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from tests.servers.provider import Dialect, Reply, Tokens, counted, pieces


class Bedrock(Dialect):
    """The dialect, as one of Anthropic's models speaks it."""

    content_type = "application/vnd.amazon.eventstream"

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        tokens = reply.tokens or Tokens()
        yield _message("messageStart", {"role": "assistant"})
        for index, (start, deltas) in enumerate(self._blocks(reply)):
            if start:
                yield _message("contentBlockStart", {"start": start, "contentBlockIndex": index})
            for delta in deltas:
                yield _message("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})
            yield _message("contentBlockStop", {"contentBlockIndex": index})
        yield _message("messageStop", {"stopReason": reply.finish or ("tool_use" if reply.calls else "end_turn")})
        read = counted(tokens, request)
        usage = {
            "inputTokens": read - tokens.cached - tokens.written,
            "outputTokens": tokens.output,
            "totalTokens": read + tokens.output,
            "cacheReadInputTokens": tokens.cached,
            "cacheWriteInputTokens": tokens.written,
        }
        yield _message("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})

    @staticmethod
    def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        if reply.reasoning:
            parts = [{"text": piece} for piece in pieces(reply.reasoning, 8)] + [{"signature": reply.signature}]
            yield {}, [{"reasoningContent": part} for part in parts]
        if reply.text:
            yield {}, [{"text": piece} for piece in pieces(reply.text, 8)]
        for index, call in enumerate(reply.calls):
            start = {"toolUse": {"toolUseId": call.id or f"tooluse_{index}", "name": call.name}}
            yield start, [{"toolUse": {"input": piece}} for piece in pieces(call.text, 7)]

    def failure(self, reply: Reply) -> bytes:
        return _message("throttlingException", {"message": "Too many requests", **reply.error}, kind="exception")

    def error(self, reply: Reply) -> dict[str, Any]:
        return {"message": "scripted", **reply.error}

    def refusal(self, request: dict[str, Any]) -> Reply | None:
        """Refuse more cache points than its models take."""
        blocks = [*request.get("system", ()), *(b for m in request["messages"] for b in m["content"])]
        if sum("cachePoint" in block for block in blocks) > 4:
            return Reply(status=400, error={"message": "A maximum of 4 cache points may be provided."})
        return None


def _message(name: str, payload: dict[str, Any], kind: str = "event") -> bytes:
    """Encode one message of the event stream: lengths, their checksum, headers, payload, checksum of all."""
    named = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in named.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return whole + struct.pack(">I", zlib.crc32(whole))
