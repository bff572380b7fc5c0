"""From the text that a policy writes to an assistant message: what it says, and the tools that it calls.

Calls stand in the text as Hermes writes them, ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, the form that most
open models with tools were trained on. A call that is no JSON is passed on as it stands, so that whoever runs it can tell
the model what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

OPEN, CLOSE = "<tool_call>", "</tool_call>"
UNNAMED = "unknown"
"""The name of a call that does not say which tool it means."""
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')


@dataclass(frozen=True)
class CallText:
    """One call: the tool's name and its arguments as JSON text, or as whatever stood there."""

    name: str
    arguments: str


@dataclass
class AnswerText:
    """Takes an answer's text piece by piece; ``message`` is what it amounts to.

    Attributes:
        content: What was said outside of calls, without the white space around them.
        calls: In order.
    """

    content: str = ""
    calls: list[CallText] = field(default_factory=list)
    _rest: str = ""
    _inside: bool = False

    def add(self, text: str) -> Iterator[str | CallText]:
        """Take a piece, and yield what is new and certain: pieces of what is said, and whole calls."""
        self._rest += text
        while found := self._next():
            yield found

    def end(self) -> Iterator[str | CallText]:
        """Yield what is left when the answer is over; a call that was not closed counts as one."""
        if self._inside and self._rest.strip():
            yield self._call(self._rest)
        elif not self._inside and (left := self._rest.rstrip() if self.calls else self._rest):
            yield self._say(left)
        self._rest = ""

    def message(self, ids: str) -> dict[str, Any]:
        """Return the message in OpenAI's form; the calls' own ids begin with ``ids``."""
        plain: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.calls:
            plain["tool_calls"] = [call_json(call, f"{ids}_{index}") for index, call in enumerate(self.calls)]
        return plain

    def _next(self) -> str | CallText | None:
        if self._inside:
            body, closed, rest = self._rest.partition(CLOSE)
            if not closed:
                return None
            self._inside, self._rest = False, rest
            return self._call(body)
        said, opened, rest = self._rest.partition(OPEN)
        if opened:
            self._inside, self._rest = True, rest
            return self._say(said.rstrip()) if said.strip() else self._next()
        certain = self._rest.rstrip()
        certain = certain[: len(certain) - _begun(certain)].rstrip()
        self._rest = self._rest[len(certain) :]
        return self._say(certain) if certain else None

    def _say(self, text: str) -> str:
        text = text if self.content else text.lstrip()
        self.content += text
        return text

    def _call(self, body: str) -> CallText:
        self.calls.append(_understood(body))
        return self.calls[-1]


def call_json(call: CallText, call_id: str) -> dict[str, Any]:
    """Return a call in OpenAI's form."""
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _begun(text: str) -> int:
    """Return how many characters at the end may be the beginning of a call."""
    return next((size for size in range(len(OPEN) - 1, 0, -1) if text.endswith(OPEN[:size])), 0)


def _understood(body: str) -> CallText:
    try:
        data = json.loads(body, strict=False)
        name, arguments = data["name"], data.get("arguments") or {}
    except (ValueError, KeyError, TypeError, AttributeError):
        named = _NAME.search(body)
        return CallText(named[1] if named else UNNAMED, body.strip())
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return CallText(str(name), text)
