"""The model's tool calls: parsed, and checked against the tools before anything runs.

A call that cannot be understood is answered with what is wrong with it, and the loop goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.tools.base import Tool

_EXCERPT = 300

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


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
        back.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
    plain = {key: value for key, value in message.items() if key != "tool_calls"}
    return ({**plain, "tool_calls": back} if back else plain), calls


def _parse(call_id: str, name: str, text: str, tools: Mapping[str, Tool], cut: bool) -> ToolCall:
    try:
        arguments = json.loads(text) if text.strip() else {}
    except ValueError as error:
        why = "your answer was cut off at the output limit, so write smaller pieces" if cut else str(error)
        excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
        problem = f"The arguments are not valid JSON: {why}. Nothing was done; call again. They were: {excerpt}"
        return ToolCall(call_id, name, {"_raw": text}, problem)
    if name not in tools:
        return ToolCall(call_id, name, {"_raw": text}, f"There is no tool '{name}'. The tools are: {', '.join(tools)}.")
    if not isinstance(arguments, dict):
        problem = "The arguments must be one JSON object. Nothing was done; call again."
        return ToolCall(call_id, name, {"_raw": text}, problem)
    mismatch = _mismatch(arguments, tools[name].schema["parameters"])
    return ToolCall(call_id, name, arguments, f"{mismatch} Nothing was done; call again." if mismatch else "")


def _mismatch(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """Say how arguments differ from a schema of an object: missing, unknown, of the wrong type or not a choice."""
    known = parameters.get("properties", {})
    if missing := [name for name in parameters.get("required", ()) if name not in arguments]:
        return f"Missing: {', '.join(missing)}."
    if unknown := [name for name in arguments if name not in known]:
        return f"Unknown: {', '.join(unknown)}. Known are: {', '.join(known) or 'none'}."
    for name, value in arguments.items():
        wanted = known[name].get("type")
        is_flag = isinstance(value, bool) and wanted in ("integer", "number")
        if wanted in _TYPES and (is_flag or not isinstance(value, _TYPES[wanted])):
            return f"'{name}' must be of type {wanted}, not {type(value).__name__}."
        choices = known[name].get("enum")
        if choices and value not in choices:
            return f"'{name}' must be one of: {', '.join(map(str, choices))}."
    return ""
