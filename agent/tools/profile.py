"""The Profile tool: where the original module's time goes, and what bounds it."""

from __future__ import annotations

from typing import Any

from agent.judging import Judging
from agent.tools.base import ToolResult
from agent.verdict_text import original_text

_SCHEMA: dict[str, Any] = {
    "name": "Profile",
    "description": (
        "Profile the original module: its signature, operators by time, the times of eager and torch.compile, how long "
        "a plain copy of the same bytes takes, the precision class, and what its output depends on."
    ),
    "parameters": {"type": "object", "properties": {}, "required": []},
}


class ProfileTool:
    """Profiles the original module, once a session; see ``agent.tools.base.Tool``."""

    name = "Profile"
    read_only = True
    schema: dict[str, Any] = _SCHEMA

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    async def run(self, arguments: dict[str, Any]) -> ToolResult:  # noqa: ARG002 - it takes none
        """Return the profile as text."""
        return ToolResult(ok=True, text=original_text(await self._judging.original()))
