"""What a policy must not learn by imitation, however well a session ended: loops, and calls that are none.

Source: CUDA Agent (arXiv 2602.24286), section 3.3, whose pattern filter drops trajectories with redundant multi-turn loops or
tool calls that break the schema.
"""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.exports.plain import arguments_of
from agent.exports.trajectory import Trajectory
from agent.tools.arguments import mismatch, settled
from sandbox.workspace import Workspace

REPEATS = 3
"""So often is the same call with the same result, or the same code judged at the same tier, going round in circles."""

_PATHS = ("file_path", "notebook_path")
_WRITING = ("Write", "Edit", "MultiEdit", "NotebookEdit")


def bad_habit(trajectory: Trajectory) -> str:
    """Return the first reason for which a session is no example, in one sentence; empty where there is none."""
    if any(turn.event.parse_errors for turn in trajectory.turns):
        return "A call could not be understood."
    calls = list(_calls(trajectory))
    if any(_breaks(arguments, schema) for _, arguments, schema in calls):
        return "A call breaks the schema of its tool."
    if any(name in _WRITING and _protected(trajectory, arguments) for name, arguments, _ in calls):
        return "It tried to write a protected file."
    if _goes_round(trajectory):
        return f"It did the same thing with the same result {REPEATS} times or more."
    return ""


def _calls(trajectory: Trajectory) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """Yield every call: its tool, its arguments, and the schema of its parameters, null for a tool that was not offered."""
    for turn in trajectory.turns:
        schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in turn.tools}
        for call in turn.event.message.get("tool_calls") or ():
            function = call["function"]
            yield function["name"], arguments_of(function["arguments"]), schemas.get(function["name"])


def _breaks(arguments: dict[str, Any], schema: dict[str, Any] | None) -> bool:
    return schema is None or mismatch(settled(arguments, schema), schema) != ""


def _protected(trajectory: Trajectory, arguments: dict[str, Any]) -> bool:
    workspace = Workspace(trajectory.session.workspace, trajectory.session.task)
    for key in _PATHS:
        path = posixpath.normpath(str(arguments.get(key, "")))
        inside = path.rpartition(f"/{workspace.folder.name}/")[2] if path.startswith("/") else path
        if inside != "." and workspace.is_protected(Path(inside)):
            return True
    return False


def _goes_round(trajectory: Trajectory) -> bool:
    """Whether calls came to the same again and again with no file written between, or the same code was judged so often."""
    judged = Counter(
        (each.verdict.source_sha256, each.verdict.tier)
        for each in trajectory.state.judged
        if each.verdict.source_sha256
    )
    done: Counter[str] = Counter()
    for turn in trajectory.turns:
        told = {event.call_id: event for event in turn.happened(ev.ToolFinished)}
        for call in turn.event.message.get("tool_calls") or ():
            finished = told.get(call["id"])
            if finished is None:
                continue
            if finished.ok and finished.name in _WRITING:
                done.clear()
            said = json.dumps([call["function"], finished.message.get("content")], sort_keys=True)
            done[said] += 1
            if done[said] >= REPEATS:
                return True
    return max(judged.values(), default=0) >= REPEATS
