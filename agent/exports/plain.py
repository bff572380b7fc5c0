"""Messages in OpenAI's form and nothing else, as fine-tuning and chat templates take them.

What a provider sealed for itself (signatures, encrypted reasoning) is stored with an answer because it has to go back to
it. It is left out here: nobody else can read it, and trainers refuse a key that they do not know. Reasoning that can be
read stays, as ``reasoning_content``, where open models' templates look for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agent.exports.trajectory import Message

_KEYS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")


def plain(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with the keys of OpenAI's form only; the words in them are as they were sent."""
    return [_plain(message) for message in messages]


def _plain(message: Message) -> Message:
    kept = {key: message[key] for key in _KEYS if key in message}
    if message.get("tool_calls"):
        kept["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": call["function"]} for call in message["tool_calls"]
        ]
    return kept


def with_objects(messages: Iterable[Message]) -> list[Message]:
    """Return messages whose calls carry their arguments as objects, as the templates of many open models want them.

    They were sent as strings, which those templates would write out as a string within a string.
    """
    return [_with_objects(message) for message in messages]


def _with_objects(message: Message) -> Message:
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        calls.append({**call, "function": {**function, "arguments": arguments_of(function["arguments"])}})
    return {**message, "tool_calls": calls}


def arguments_of(text: str) -> dict[str, Any]:
    """Return a call's arguments; text that is no JSON object gives none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
