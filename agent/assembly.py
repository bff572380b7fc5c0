"""One answer put together from the chunks of its stream, whatever a server makes of the protocol.

Tool calls are told apart by more than their index, since servers give every call the same one, leave ids out, repeat them,
or say a call's id and name again in every piece of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.model import Piece


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)

    def ends_before(self, call_id: str, name: str, arguments: str) -> bool:
        """Whether a piece with this call's index begins another call."""
        if not name:
            return False
        if (call_id and self.id and call_id != self.id) or (self.name and name != self.name):
            return True
        return bool(self.name and arguments.strip()) and _is_whole("".join(self.arguments))

    def to_json(self) -> dict[str, Any]:
        plain = {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": "".join(self.arguments)},
        }
        return {**plain, "provider_specific_fields": self.fields} if self.fields else plain


class Assembly:
    """Takes chunks as they come; ``message`` is the whole assistant message so far.

    Attributes:
        finish_reason: As LiteLLM maps it; empty until it was told.
        token_ids, logprobs: Of the answer, in order; empty where the server gives none.
        told: Fields of the whole answer, outside the choices, that OpenAI's protocol does not know.
    """

    def __init__(self) -> None:
        self.finish_reason = ""
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.told: dict[str, Any] = {}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._items: list[dict[str, Any]] = []
        self._fields: dict[str, Any] = {}
        self._calls: list[_Call] = []
        self._numbers: dict[int, int] = {}

    @property
    def reasoning(self) -> str:
        """What the model showed of its thinking."""
        return "".join(self._reasoning)

    @property
    def empty(self) -> bool:
        """Whether nothing was said at all, not even why."""
        return not (self.finish_reason or self._text or self._reasoning or self._calls)

    def add(self, chunk: Any) -> Iterator[Piece]:
        """Take a chunk and yield what it adds, piece by piece."""
        self.told |= {key: value for key, value in (chunk.model_extra or {}).items() if value is not None}
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        self.token_ids += getattr(choice, "token_ids", None) or ()
        self.logprobs += [token.logprob for token in getattr(choice.logprobs, "content", None) or ()]
        delta = choice.delta
        self._take_thinking(getattr(delta, "thinking_blocks", None) or ())
        self._items += getattr(delta, "reasoning_items", None) or ()
        self._fields |= getattr(delta, "provider_specific_fields", None) or {}
        if reasoning := getattr(delta, "reasoning_content", None):
            self._reasoning.append(reasoning)
            yield Piece("reasoning", reasoning)
        if delta.content:
            self._text.append(delta.content)
            yield Piece("text", delta.content)
        for call in delta.tool_calls or ():
            yield self._take_call(call)

    def _take_thinking(self, blocks: Sequence[dict[str, Any]]) -> None:
        """Join thinking up to its signature; what was never signed cannot go back and is left out."""
        for block in blocks:
            if block.get("type") == "redacted_thinking":
                self._blocks.append({"type": "redacted_thinking", "data": block["data"]})
                continue
            if not self._blocks or self._blocks[-1].get("signature", "no thinking"):
                self._blocks.append({"type": "thinking", "thinking": "", "signature": ""})
            self._blocks[-1]["thinking"] += block.get("thinking") or ""
            self._blocks[-1]["signature"] = block.get("signature") or ""

    def _take_call(self, piece: Any) -> Piece:
        call_id, name = piece.id or "", piece.function.name or ""
        arguments = piece.function.arguments or ""
        number = self._numbers.get(piece.index)
        if number is None or self._calls[number].ends_before(call_id, name, arguments):
            number = self._numbers[piece.index] = len(self._calls)
            self._calls.append(_Call())
        call = self._calls[number]
        call.id, call.name = call.id or call_id, call.name or name
        call.arguments.append(arguments)
        call.fields |= getattr(piece, "provider_specific_fields", None) or {}
        return Piece("tool", arguments, number, call.name)

    @property
    def message(self) -> dict[str, Any]:
        """The assistant message, with everything that some provider insists on getting back."""
        plain: dict[str, Any] = {"role": "assistant", "content": "".join(self._text)}
        if self._calls:
            plain["tool_calls"] = [call.to_json() for call in self._calls]
        signed = [block for block in self._blocks if block.get("signature", "redacted")]
        if signed:
            plain["thinking_blocks"] = signed
        elif self._reasoning:
            plain["reasoning_content"] = self.reasoning
        if self._items:
            plain["reasoning_items"] = self._items
        fields = {key: value for key, value in self._fields.items() if key != "thinking_blocks" and value}
        if fields:
            plain["provider_specific_fields"] = fields
        return plain


def _is_whole(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
