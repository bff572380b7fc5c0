"""Making a conversation shorter without losing what must be kept.

First, long results of tools that are some turns old become a line with a reference to the whole. If that is not enough, all
but the last turns goes. In both cases a summary comes behind the task's opening (see ``agent.context.summary``), and the
developer's words that went are told again, word for word. It follows from the stored session alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agent.context.counting import estimate
from agent.context.summary import HEAD, Files, ReadFiles, summary
from agent.framing import DEVELOPER
from agent.state import SessionState

Message = dict[str, Any]
WHOLE_TURNS = 6
"""So many of the last turns stay whole, if they fit."""
SHARE = 0.5
"""A shortened request takes at most this share of the budget: a provider's cache is lost each time, so it has to be rare."""
RECENT_SHARE = 0.2
"""Of the budget, for turns that stay whole; the last one does in any case."""
_SHORT = 400
"""Characters. A result no longer than this stays."""


def compacted(
    state: SessionState,
    budget: int,
    read: ReadFiles,
    now: Files,
    keep: Callable[[str], str],
    redact: Callable[[str], str],
) -> list[Message]:
    """Return the messages that take the conversation's place; no tool call may be open.

    Args:
        state: The session.
        budget: Tokens of the longest request.
        read: See ``summary``.
        now: See ``summary``.
        keep: Stores a text and returns what the model can ask for it by.
        redact: Takes secrets out of what is quoted from files.
    """
    head, body = state.messages[:2], [each for each in state.messages[2:] if not _is_summary(each)]
    start = _recent(body, budget)
    shrunk = [*_shrunk(body[:start], keep), *body[start:]]
    for candidate in (shrunk, body[start:], body[_last_turn(body) :]):
        told = _whole(state, head, candidate, read, now, redact)
        if estimate(told) + estimate(state.tools) <= budget * SHARE:
            break
    return told


def _whole(
    state: SessionState,
    head: list[Message],
    body: list[Message],
    read: ReadFiles,
    now: Files,
    redact: Callable[[str], str],
) -> list[Message]:
    """Return the conversation of what is kept: nothing that the body holds already is told twice."""
    held = [each["content"] for each in body if isinstance(each.get("content"), str)]
    skills = [text for text in state.skills_read if text not in held]
    words = []
    for text in reversed(state.words):
        if text in held:
            held.remove(text)
        else:
            words.append({"role": "user", "content": text})
    told = redact(summary(state, read, now, skills))
    return [*head, {"role": "user", "content": told}, *reversed(words), *body]


def _is_summary(message: Message) -> bool:
    return message["role"] == "user" and str(message.get("content")).startswith(HEAD)


def _turns(body: Sequence[Message]) -> list[int]:
    """Return where turns begin: at every answer of the model, whose results follow it."""
    return [index for index, message in enumerate(body) if message["role"] == "assistant"]


def _last_turn(body: Sequence[Message]) -> int:
    return (_turns(body) or [0])[-1]


def _recent(body: Sequence[Message], budget: int) -> int:
    """Return where the turns begin that stay whole."""
    starts = _turns(body)[-WHOLE_TURNS:] or [0]
    fits = (start for start in starts if estimate(body[start:]) <= budget * RECENT_SHARE)
    return next(fits, starts[-1])


def _shrunk(older: Sequence[Message], keep: Callable[[str], str]) -> list[Message]:
    """Return older turns with long results as one line; skills and the developer's words stay."""
    names: dict[str, str] = {}
    found = []
    for message in older:
        names |= {call["id"]: _called(call["function"]) for call in message.get("tool_calls") or ()}
        text = message.get("content")
        long = message["role"] == "tool" and isinstance(text, str) and len(text) > _SHORT
        called = names.get(message.get("tool_call_id", ""), "")
        if long and not called.startswith("Skill") and not str(text).startswith(DEVELOPER):
            line = f"[{called}: {len(str(text)):,} characters, set aside to make room; Recall {keep(str(text))} shows them]"
            message = {**message, "content": line}
        found.append(message)
    return found


def _called(function: dict[str, Any]) -> str:
    """Return a call's tool and what it was about, in a few words."""
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = {}
    about = next(filter(None, (arguments.get(k) for k in ("file_path", "command", "pattern", "note"))), "")
    return f"{function['name']} {str(about)[:60]!r}" if about else str(function["name"])
