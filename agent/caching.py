"""Marks for prompt caches that want to be told what to keep.

Anthropic's models, wherever they are served, cache up to a mark and look back about twenty blocks from it for what is
cached already. Three of the four marks allowed are set: on the system message (tools are cached with it), on the newest
message, which the next request will want to find, and on what was newest in the request before, so that it is found even
after an answer with many calls. Where marks go follows from the messages alone, and the stored conversation has none: a
request is made again from it by marking it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MARK = {"type": "ephemeral"}


def marked(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with cache marks; the given ones are left as they are."""
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    places = {len(messages) - 1}
    if answers:
        places.add(answers[-1] - 1)
    if messages[0]["role"] == "system":
        places.add(0)
    return [_mark(message) if index in places else message for index, message in enumerate(messages)]


def _mark(message: dict[str, Any]) -> dict[str, Any]:
    """Mark a text message; one whose content is empty or in parts of its own cannot be, and goes as it is."""
    content = message.get("content")
    if not isinstance(content, str) or not content:
        return message
    if message["role"] == "tool":
        return {**message, "cache_control": MARK}
    return {**message, "content": [{"type": "text", "text": content, "cache_control": MARK}]}
