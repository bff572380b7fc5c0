"""What the developer is asked about a call: what it does, why, and what each answer allows from then on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.permissions.rules import WRITING, Rule, as_pattern, subjects
from agent.tools.base import ToolProblem
from agent.tools.edits import decode, replace, replacements
from agent.tools.places import Places

_LONGEST_WHY = 300


@dataclass(frozen=True)
class Question:
    """One question; see ``agent.events.PermissionAsked``."""

    what: str
    detail: str
    choices: list[dict[str, str]]


def question(tool: str, arguments: Mapping[str, Any], places: Places, *, lasting: bool) -> Question:
    """Make the question about a call; ``lasting`` offers to allow more than this once."""
    if tool in WRITING:
        before, after = _texts(tool, arguments, places)
        detail = "\n".join(
            difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
        )
        lines = detail.splitlines()[2:]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        what = f"{_path(tool, arguments)} +{added} −{removed}"
    else:
        detail, what = "", str(arguments.get("command") or arguments)
    return Question(what, detail, _choices(saved_rule(tool, arguments), lasting=lasting))


def saved_rule(tool: str, arguments: Mapping[str, Any]) -> Rule:
    """Return the rule that a lasting answer keeps: the file's folder or the file, or exactly this command."""
    if tool not in WRITING:
        return Rule(tool, as_pattern(str(arguments.get("command", "")).strip()))
    path = _path(tool, arguments)
    return Rule("Write", "kernels/**" if path.startswith("kernels/") else path)


def last_sentence(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the last sentence of the agent's last answer, which says why it does what it does."""
    content = next((m.get("content") for m in reversed(messages) if m["role"] == "assistant"), "")
    sentences = re.split(r"(?<=[.!?:])\s+", content.strip()) if isinstance(content, str) else []
    return sentences[-1][-_LONGEST_WHY:] if sentences else ""


def _choices(rule: Rule, *, lasting: bool) -> list[dict[str, str]]:
    once = [
        {"scope": "reject", "text": "Reject, and say why", "pattern": ""},
        {"scope": "once", "text": "Allow this once", "pattern": ""},
    ]
    if not lasting:
        return once
    return [
        *once,
        {"scope": "session", "text": f"Allow in this session: {rule}", "pattern": str(rule)},
        {"scope": "project", "text": f"Allow always in this project: {rule}", "pattern": str(rule)},
    ]


def _path(tool: str, arguments: Mapping[str, Any]) -> str:
    return subjects(tool, arguments)[0]


def _texts(tool: str, arguments: Mapping[str, Any], places: Places) -> tuple[str, str]:
    """Return the file before and after a call; where the call will fail anyway, what it names."""
    path = _path(tool, arguments)
    try:
        before = decode(places.read(path)) if places.exists(path) else ""
    except (ToolProblem, OSError):
        before = ""
    if tool == "Write":
        return before, str(arguments.get("content", ""))
    if tool == "NotebookEdit":
        return "", str(arguments.get("new_source", ""))
    after = before
    for change in replacements(arguments):
        try:
            after = replace(after, change)
        except ToolProblem:
            return change.old, change.new
    return before, after
