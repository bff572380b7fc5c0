"""The Sanitize tool: faults of the kernels that a right answer may hide."""

from __future__ import annotations

from agent.judging import Judging
from agent.study_text import sanitizer_text
from agent.tools.base import FunctionTool, Tool, ToolResult
from agent.tools.looking import look_at
from sandbox.looking.sanitizer import sanitize
from sandbox.workspace import Workspace

_DESCRIPTION = (
    "Run the candidate under sanitizers: accesses out of bounds, races in shared memory, uninitialised reads and bad barriers "
    "on a GPU; out of bounds and undefined behaviour on the CPU. Each with its line. Use it when a result is wrong now and "
    "then, or a kernel crashes."
)


def sanitize_tool(judging: Judging, workspace: Workspace) -> Tool:
    """Return the tool. Its answer is ``ok`` unless something was found."""

    async def run() -> ToolResult:
        report = await look_at(judging, workspace, sanitize)
        return ToolResult(not report.findings, sanitizer_text(report))

    return FunctionTool("Sanitize", _DESCRIPTION, {}, run)
