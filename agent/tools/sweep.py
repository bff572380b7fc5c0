"""The Sweep and Ablate tools: variants of the kernels against each other, as measurements that never count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.judging import Judging
from agent.study_text import ablation_text, sweep_text
from agent.tools.base import FunctionTool, Tool, ToolProblem, ToolResult
from agent.tools.looking import look_at
from sandbox.errors import UsageError
from sandbox.looking.ablation import ablate
from sandbox.looking.defines import MOST_COMBINATIONS, checked
from sandbox.looking.sweep import sweep
from sandbox.workspace import Workspace

_SWEEP = (
    "Time the kernels under several values of macros (tile, block, unroll), every combination, in one call: built in parallel, "
    "verified, timed against each other; says which is best and whether the difference is real. Each macro needs #ifndef TILE / "
    "#define TILE 64 / #endif in a kernel file. No verdict: write the best values into the source, then Check."
)
_DEFINES: dict[str, Any] = {
    "defines": {
        "type": "object",
        "description": f'Values by macro: {{"TILE": [32, 64], "UNROLL": [2, 4]}}; at most {MOST_COMBINATIONS} combinations.',
    }
}
_ABLATE = (
    "Time the kernels with one phase left out at a time, to see which phase costs. A phase is what stands between "
    "#ifndef ABLATE_NAME and #endif in a kernel file. The answer is wrong then, so this never counts; remove the lines before "
    "the final Check."
)
_PHASES: dict[str, Any] = {
    "phases": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Names without ABLATE_; every phase there is if left out.",
    }
}


def sweep_tool(judging: Judging, workspace: Workspace) -> Tool:
    """Return the Sweep tool. Its answer is ``ok`` unless no variant can be timed for a fault of theirs."""

    async def run(defines: Mapping[str, Any]) -> ToolResult:
        values = _values(defines)
        report = await look_at(judging, workspace, lambda study: sweep(study, values))
        return ToolResult(report.best is not None or bool(report.disturbed), sweep_text(report))

    return FunctionTool("Sweep", _SWEEP, _DEFINES, run, required=("defines",))


def ablate_tool(judging: Judging, workspace: Workspace) -> Tool:
    """Return the Ablate tool. Its answer is ``ok`` unless the whole candidate does not run."""

    async def run(phases: Sequence[str] = ()) -> ToolResult:
        report = await look_at(judging, workspace, lambda study: ablate(study, phases))
        return ToolResult(report.us is not None or bool(report.disturbed), ablation_text(report))

    return FunctionTool("Ablate", _ABLATE, _PHASES, run)


def _values(defines: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the values as texts; one value alone may stand without a list.

    Raises:
        ToolProblem: A name or value is none.
    """
    try:
        return dict(checked(name, each if isinstance(each, list) else [each]) for name, each in defines.items())
    except UsageError as error:
        raise ToolProblem(str(error)) from error
