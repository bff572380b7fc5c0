"""The model's tool calls, parsed. One that cannot be understood carries what is wrong with it, for the model to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.tools.base import Tool

_EXCERPT = 300


@dataclass(frozen=True)
class ToolCall:
    """One call: its id and tool, its parsed arguments, and what is wrong with it (empty if nothing is)."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str = ""

    @property
    def unparsed(self) -> bool:
        """Whether the arguments were no JSON object; then ``_raw`` holds their text."""
        return "_raw" in self.arguments


def understand(
    message: dict[str, Any], turn: int, tools: Mapping[str, Tool], *, cut: bool = False
) -> tuple[dict[str, Any], list[ToolCall]]:
    """Return an answer as it can be sent back, and its calls.

    Every call gets an id of its own, because results are matched by id and some servers leave ids out or repeat them.
    Arguments that are no JSON go back as ``{}``, because providers refuse a conversation that holds them; their text is in
    the call's ``_raw``.

    Args:
        message: The assistant message as the model gave it.
        turn: The number of the answer, for ids of our own.
        tools: The tools by name.
        cut: The answer was cut off at the output limit, which explains arguments that do not parse.
    """
    calls: list[ToolCall] = []
    back = []
    for index, sent in enumerate(message.get("tool_calls") or ()):
        call_id, name, text = sent.get("id") or "", sent["function"]["name"], sent["function"]["arguments"]
        if not call_id or any(call.id == call_id for call in calls):
            call_id = f"call_{turn}_{index}"
        call = _parse(call_id, name, text, tools, cut)
        calls.append(call)
        arguments = "{}" if call.unparsed else text
        back.append({**sent, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
    plain = {key: value for key, value in message.items() if key != "tool_calls"}
    return ({**plain, "tool_calls": back} if back else plain), calls


def parse_errors(calls: Sequence[ToolCall]) -> list[dict[str, str]]:
    """Return the calls that could not be understood: which, what the model wrote, and what is wrong with it."""
    return [
        {
            "call_id": call.id,
            "tool": call.name,
            "raw": call.arguments["_raw"] if call.unparsed else json.dumps(call.arguments, ensure_ascii=False),
            "problem": call.problem,
        }
        for call in calls
        if call.problem
    ]


def _parse(call_id: str, name: str, text: str, tools: Mapping[str, Tool], cut: bool) -> ToolCall:
    try:
        arguments = json.loads(text) if text.strip() else {}
    except ValueError as error:
        why = "your answer was cut off at the output limit, so write smaller pieces" if cut else str(error)
        excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
        problem = f"The arguments are not valid JSON: {why}. Nothing was done; call again. They were: {excerpt}"
        return ToolCall(call_id, name, {"_raw": text}, problem)
    if not isinstance(arguments, dict):
        problem = "The arguments must be one JSON object. Nothing was done; call again."
        return ToolCall(call_id, name, {"_raw": text}, problem)
    unknown = "" if name in tools else f"There is no tool '{name}'. The tools are: {', '.join(tools)}."
    return ToolCall(call_id, name, arguments, unknown)
