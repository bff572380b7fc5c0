"""The Check tool: the judge, asked by the agent about the workspace as it is now."""

from __future__ import annotations

from typing import Any

from agent.judging import Judging
from agent.stream import Stream
from agent.tools.base import ToolResult
from agent.verdict_text import verdict_text
from sandbox.errors import TaskError, UsageError
from sandbox.workspace import Workspace

_SCHEMA: dict[str, Any] = {
    "name": "Check",
    "description": (
        "Build the kernels, guard, verify against a float64 oracle, and time the workspace as it is now against eager "
        "and torch.compile. 'quick' takes seconds and is for iterating; 'full' is what a landing and the final reward "
        "rest on."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "tier": {"type": "string", "enum": ["quick", "full"], "description": "Default quick."},
            "note": {"type": "string", "description": "What was changed, and the gain you expect from it."},
        },
        "required": [],
    },
}


class CheckTool:
    """Judges the workspace; see ``agent.tools.base.Tool``. Each use is an attempt, unless these files were judged already."""

    name = "Check"
    read_only = False
    schema: dict[str, Any] = _SCHEMA

    def __init__(self, judging: Judging, workspace: Workspace, stream: Stream) -> None:
        self._judging = judging
        self._workspace = workspace
        self._stream = stream

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Judge, and return the verdict as text; ``ok`` tells whether the candidate is correct."""
        tier, state = arguments.get("tier", "quick"), self._stream.state
        try:
            files = self._workspace.files()
            hashes = {path: self._stream.blob(content) for path, content in files.items()}
            if known := state.judgement(hashes, tier):
                text = "These very files were judged already; nothing was measured again.\n"
                return ToolResult(ok=known.verdict.correct, text=text + verdict_text(known.verdict, known.attempt))
            judged = await self._judging.attempt(files, tier, state.running_call)
        except TaskError:
            raise
        except UsageError as error:
            return ToolResult(ok=False, text=f"There is nothing to judge. {error}")
        self._workspace.commit(f"Attempt {judged.attempt}: {arguments.get('note', '')}".rstrip(": "))
        return ToolResult(ok=judged.verdict.correct, text=verdict_text(judged.verdict, judged.attempt))
