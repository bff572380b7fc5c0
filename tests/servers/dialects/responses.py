"""OpenAI's responses: what its newest models with tools are asked by. Items open, grow and close; reasoning is sealed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.servers.provider import Dialect, Reply, counted, pieces, sse


class Responses(Dialect):
    """The dialect. Reasoning is seen as a summary and goes back as the sealed item it came in."""

    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        number = itertools.count()

        def event(kind: str, **data: Any) -> bytes:
            return sse({"type": kind, "sequence_number": next(number), **data}, kind)

        head = {"id": "resp_1", "object": "response", "created_at": 1, "model": request["model"]}
        head |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
        yield event("response.created", response={**head, "status": "in_progress", "output": []})
        items = list(self._items(reply))
        for index, (item, empty, kind, text) in enumerate(items):
            place = {"output_index": index, "item_id": item["id"]}
            yield event("response.output_item.added", output_index=index, item={**item, **empty})
            for piece in pieces(text, 8):
                more = {"summary_index": 0} if "reasoning" in kind else {"content_index": 0} if "text" in kind else {}
                yield event(f"{kind}.delta", **place, **more, delta=piece)
            yield event("response.output_item.done", output_index=index, item=item)
        cut = reply.finish == "max_output_tokens"
        end = {**head, "status": "incomplete" if cut else "completed", "output": [item for item, *_ in items]}
        end["incomplete_details"] = {"reason": reply.finish} if cut else None
        if reply.tokens is not None:
            end["usage"] = self._usage(reply, request)
        yield event("response.incomplete" if cut else "response.completed", response=end)

    def _items(self, reply: Reply) -> Iterator[tuple[dict[str, Any], dict[str, Any], str, str]]:
        """Yield each item, what of it is empty as it opens, what its pieces are called, and its text."""
        if reply.reasoning:
            summary = [{"type": "summary_text", "text": reply.reasoning}]
            item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": reply.signature}
            yield item, {"summary": []}, "response.reasoning_summary_text", reply.reasoning
        if reply.text:
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
            yield item, {"content": [], "status": "in_progress"}, "response.output_text", reply.text
        for index, call in enumerate(reply.calls):
            item = {"type": "function_call", "id": f"fc_{index}", "call_id": call.id or f"call_{index}"}
            item |= {"name": call.name, "arguments": call.text, "status": "completed"}
            yield item, {"arguments": "", "status": "in_progress"}, "response.function_call_arguments", call.text

    @staticmethod
    def _usage(reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
        tokens = reply.tokens
        assert tokens is not None
        read = tokens.input or counted(tokens, {"messages": request["input"]})
        return {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": read + tokens.output,
        }

    def failure(self, reply: Reply) -> bytes:
        error = {"code": "server_error", "message": "scripted", **reply.error}
        response = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "failed",
            "error": error,
            "output": [],
        }
        return sse({"type": "response.failed", "sequence_number": 9, "response": response}, "response.failed")

    def error(self, reply: Reply) -> dict[str, Any]:
        return {"error": {"message": "scripted", "type": "server_error", **reply.error}}

    def refusal(self, request: dict[str, Any]) -> Reply | None:
        """Refuse fields of chat completions, and a result without its call."""
        called = {item["call_id"] for item in request["input"] if item.get("type") == "function_call"}
        answered = {item["call_id"] for item in request["input"] if item.get("type") == "function_call_output"}
        unknown = {"messages", "return_token_ids", "logprobs"} & request.keys()
        if unknown or answered - called:
            return Reply(status=400, error={"message": f"Unknown parameter: {unknown}, or no tool call found"})
        return None
