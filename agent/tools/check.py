"""The Check tool: the judge, asked by the agent about the workspace as it is now."""

from __future__ import annotations

from typing import Any

from agent.judging import Judging
from agent.state import Judged
from agent.stream import Stream
from agent.tools.base import FunctionTool, Tool, ToolProblem, ToolResult
from agent.verdict_text import SIZED, WHOLE, verdict_text
from sandbox.errors import TaskError, UsageError
from sandbox.verdict import Tier
from sandbox.workspace import Workspace

_DESCRIPTION = (
    "Judge the workspace as it is now: build the kernels, guard, verify against a float64 oracle, and time it against eager "
    "and torch.compile. 'quick' takes seconds and is for iterating; 'full' is what a landing and the final reward rest on. "
    "Intervals are 95 %, over placements: a placement is a new process with new buffers."
)
_PARAMETERS: dict[str, Any] = {
    "tier": {"type": "string", "enum": ["quick", "full"], "description": "quick if left out."},
    "note": {"type": "string", "description": "What was changed, and the gain you expect from it."},
    "remeasure": {"type": "boolean", "description": "Judge again even if these very files were judged. Default false."},
}
_KNOWN = (
    "These very files were judged with tier {tier} already; nothing was measured again. For fresh times use remeasure: true"
    ", or the other tier.\n"
)
_UNTOUCHED = (
    "There is nothing to judge: {file} still is the original, and there are no kernels. Write a kernel and call it there "
    "first; Profile has the original's own times."
)


_TAKEN = (
    "The same code, but for comments and layout, was judged already as attempt {attempt} of session {session} of this search; "
    "nothing was measured again. For fresh times use remeasure: true, or the other tier.\n"
)


def check_tool(judging: Judging, workspace: Workspace, stream: Stream) -> Tool:
    """Return the tool. Each use is an attempt, unless these very files were judged at this tier already, or are the original.

    Its answer is ``ok`` when the candidate is correct.
    """

    async def check(tier: Tier = "quick", note: str = "", remeasure: bool = False) -> ToolResult:
        try:
            files = workspace.files()
            hashes = {path: stream.blob(content) for path, content in files.items()}
            if hashes == stream.state.original_files:
                raise ToolProblem(_UNTOUCHED.format(file=workspace.spec.candidate_file))
            disturbed = stream.state.disturbed(hashes)
            if not remeasure and (known := stream.state.judgement(hashes, tier)):
                return _told(known, _KNOWN.format(tier=tier))
            judged = await judging.attempt(files, tier, stream.state.running_call, fresh=remeasure)
        except TaskError:
            raise
        except UsageError as error:
            raise ToolProblem(f"There is nothing to judge. {error}") from error
        workspace.commit(f"Attempt {judged.attempt}: {note}" if note else f"Attempt {judged.attempt}")
        text = _TAKEN.format(**judged.taken_from) if judged.taken_from and judging.tells_whose else ""
        return _told(judged, text, disturbed_before=disturbed)

    return FunctionTool("Check", _DESCRIPTION, _PARAMETERS, check)


def _told(judged: Judged, before: str, *, disturbed_before: bool = False) -> ToolResult:
    """Return a verdict sized for the model, and the whole of it where that leaves something out."""
    sized, whole = (
        verdict_text(judged.verdict, judged.attempt, size, disturbed_before=disturbed_before) for size in (SIZED, WHOLE)
    )
    return ToolResult(judged.verdict.correct, before + sized, whole if whole != sized else None)
