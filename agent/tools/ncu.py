"""The Ncu tool: what limits each kernel, by the GPU's own counters."""

from __future__ import annotations

from pathlib import Path

from agent.judging import Judging
from agent.tools.base import FunctionTool, Tool, ToolResult
from agent.tools.looking import look_at
from sandbox.looking.nsight import SUFFIX, profile_kernels
from sandbox.workspace import Workspace

_DESCRIPTION = (
    "Run the candidate once under Nsight Compute: for each kernel memory and compute use, occupancy and its limit, stalls, "
    "coalescing, bank conflicts, spills; ends in the likeliest limiter. Use it when Check is correct, before the next change. "
    "Takes about 20 s; its times are not Check's."
)


def ncu_tool(judging: Judging, workspace: Workspace, reports: Path) -> Tool:
    """Return the tool; reports are kept in ``reports``. Its answer is ``ok`` unless the candidate is at fault."""

    async def ncu() -> ToolResult:
        keep = reports / f"{len(list(reports.glob(f'*{SUFFIX}'))) + 1}{SUFFIX}"
        profile = await look_at(judging, workspace, lambda study: profile_kernels(study, keep))
        return ToolResult(not profile.at_fault, "\n".join(profile.digest))

    return FunctionTool("Ncu", _DESCRIPTION, {}, ncu)
