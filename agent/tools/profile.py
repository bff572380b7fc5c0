"""The Profile tool: where the original module's time goes, and what bounds it."""

from __future__ import annotations

from agent.judging import Judging
from agent.tools.base import FunctionTool, Tool
from agent.verdict_text import original_text

_DESCRIPTION = (
    "Profile the original module: its signature, operators by time, the times of eager and torch.compile, how long a plain "
    "copy of the same bytes takes, the precision class, and what its output depends on."
)


def profile_tool(judging: Judging) -> Tool:
    """Return the tool; the original is measured once a session."""

    async def profile() -> str:
        return original_text(await judging.original())

    return FunctionTool("Profile", _DESCRIPTION, {}, profile, read_only=True)
