"""The Recall tool: the whole of an output that was cut or set aside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agent.store import BLOBS, read_blob
from agent.tools.base import FunctionTool, Tool, ToolProblem, ToolResult, clipped

DEFAULT_LINES = 100
_DESCRIPTION = (
    "Show more of an output that was cut or set aside, by the reference given there: lines from an offset on, or those that "
    "match a pattern."
)
_PARAMETERS: dict[str, Any] = {
    "reference": {"type": "string", "minLength": 1, "description": "As given, such as 3fa94c02d1b7e650."},
    "offset": {"type": "integer", "minimum": 1, "description": "First line to show, from 1. Default 1."},
    "limit": {"type": "integer", "minimum": 1, "description": f"Most lines to show. Default {DEFAULT_LINES}."},
    "text": {"type": "string", "description": "Show only lines that contain this text, with their numbers."},
}


def recall_tool(session: Path) -> Tool:
    """Return the tool; it reads what the session's folder keeps, and nothing else."""

    def recall(reference: str, offset: int = 1, limit: int = DEFAULT_LINES, text: str = "") -> ToolResult:
        known = list((session / BLOBS).glob(f"{reference}*")) if re.fullmatch(r"[0-9a-f]{12,64}", reference) else []
        if len(known) != 1:
            raise ToolProblem(f"Nothing is kept as {reference}. Give a reference as an output names it.")
        lines = read_blob(session, known[0].name).decode(errors="replace").splitlines()
        numbered = [(n, line) for n, line in enumerate(lines, 1) if n >= offset and text in line]
        wanted = numbered[:limit]
        if not wanted:
            raise ToolProblem(f"No line from {offset} on is there; it has {len(lines)} lines.")
        more = len(numbered) - len(wanted)
        note = f"\n[{more} more; go on with offset {wanted[-1][0] + 1}]" if more else ""
        return clipped("\n".join(f"{n}\t{line}" for n, line in wanted) + note)

    return FunctionTool("Recall", _DESCRIPTION, _PARAMETERS, recall, ("reference",), read_only=True)
