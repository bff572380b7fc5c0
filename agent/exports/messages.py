"""OpenAI messages with tools: one object a prompt segment, as fine-tuning takes it.

``{"messages": [...], "tools": [...], "metadata": {...}}``. The messages are those of the segment's last prompt, exactly
as it was sent, and its answer. ``metadata.context`` says how many of them were there before the segment's first answer:
answers before that index stand in an earlier row already, and should not be learned again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from agent.exports.evidence import facts
from agent.exports.trajectory import Message, Note, Trajectory, answered


def rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield a row a segment."""
    for trajectory in answered(trajectories, note):
        for number, segment in enumerate(trajectory.segments, 1):
            yield {
                "messages": list(segment[-1].conversation),
                "tools": segment[-1].tools,
                "metadata": {
                    **facts(trajectory),
                    "segment": number,
                    "segments": len(trajectory.segments),
                    "context": len(segment[0].messages),
                    "proven": all(turn.proven for turn in segment),
                },
            }


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
