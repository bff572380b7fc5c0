"""From a conversation to token ids, such that what the policy wrote stays the very ids that it sampled.

Text that is made into tokens again may become other ones, and a call that is parsed and written anew is another text. So
whenever a conversation goes on from one that was answered here, its ids are those of that prompt and that answer, and only
what came after is put through the chat template. Where a template writes the past otherwise than before, everything is.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Message = dict[str, Any]
_REMEMBERED = 512


class Conversations:
    """Makes prompts, and remembers the ids of the answers; asked by several threads at once.

    Args:
        tokenizer: A ``transformers`` tokenizer with a chat template.
        ends: Ids of the tokens that end an answer.
    """

    def __init__(self, tokenizer: Any, ends: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._ends = list(ends)
        self._end_texts = tokenizer.convert_ids_to_tokens(self._ends)
        self._known: OrderedDict[bytes, NDArray[np.int32]] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def prompt(self, messages: Sequence[Message], tools: Sequence[Message]) -> list[int]:
        """Return the ids of the prompt that these messages are."""
        text = self._text(messages, tools, asked=True)
        for count, key in reversed(list(_keys(messages, tools))):
            ids = self._found(key)
            if ids is None:
                continue
            after = self._after(text, self._text(messages[:count], tools, asked=False), int(ids[-1]))
            if after is not None:
                return [*ids.tolist(), *self._encoded(after)]
        return self._encoded(text)

    def remember(
        self, messages: Sequence[Message], tools: Sequence[Message], answer: Message, ids: Sequence[int]
    ) -> None:
        """Keep the ids of a prompt and its answer for the conversations that go on from it."""
        *_, (_, key) = _keys([*messages, answer], tools)
        with self._one_at_a_time:
            self._known[key] = np.asarray(ids, np.int32)
            self._known.move_to_end(key)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _found(self, key: bytes) -> NDArray[np.int32] | None:
        with self._one_at_a_time:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def _after(self, text: str, begun: str, last: int) -> str | None:
        """Return what comes after an answer whose last id this is; null where its end is not found in the text."""
        ends = [(begun.rfind(end), end) for end in self._end_texts if end in begun]
        if not ends or not text.startswith(begun):
            return None
        at, end = max(ends)
        if begun[at + len(end) :].strip():
            return None
        return text[at + len(end) :] if last in self._ends else text[at:]

    def _text(self, messages: Sequence[Message], tools: Sequence[Message], *, asked: bool) -> str:
        told = [_for_template(message) for message in messages]
        text = self._tokenizer.apply_chat_template(
            told, tools=list(tools) or None, add_generation_prompt=asked, tokenize=False
        )
        return str(text)

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def _keys(messages: Sequence[Message], tools: Sequence[Message]) -> Iterator[tuple[int, bytes]]:
    """Yield, for every answer, how many messages there are up to it and a hash of them."""
    hashed = hashlib.sha256(json.dumps(list(tools), sort_keys=True).encode())
    for count, message in enumerate(messages, 1):
        hashed.update(json.dumps(_canonical(message), sort_keys=True).encode())
        if message["role"] == "assistant":
            yield count, hashed.digest()


def _canonical(message: Message) -> list[Any]:
    """Return what of a message tells it from others: ids of calls may be given anew, and arguments that are no JSON left out."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return [message["role"], message.get("content") or "", [[c["name"], _arguments(c["arguments"])] for c in calls]]


def _for_template(message: Message) -> Message:
    """Return a message as templates want it: arguments as objects, and a content even where it is empty."""
    told = {**message, "content": message.get("content") or ""}
    if message.get("tool_calls"):
        told["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _arguments(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
    return told


def _arguments(text: Any) -> dict[str, Any]:
    try:
        data = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
