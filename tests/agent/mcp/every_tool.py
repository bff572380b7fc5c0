"""Each tool of ``warpsmith mcp`` used once by the SDK's own client, on whatever device the server was started for."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

SCRIPT = """
import torch
from shifted import Shifted

module = Shifted({width}).eval().to("{device}")
x = torch.randn({rows}, {width}, device="{device}")
with torch.no_grad():
    for _ in range(400):
        module(x)
"""


async def use_every_tool(
    server: StdioServerParameters,
    project: Path,
    *,
    device: str,
    size: tuple[int, int],
    files: dict[str, str],
    macro: str,
) -> dict[str, str]:
    """Open a task from a script's hotspots, and have its candidate looked at in every way; returns what each tool said.

    Args:
        server: The server to start.
        project: Holds ``shifted.py`` with the class ``Shifted``.
        device: As torch calls it.
        size: Rows and width of the input.
        files: The candidate.
        macro: Of its kernel, swept over 64 and 256.
    """
    (project / "script.py").write_text(SCRIPT.format(rows=size[0], width=size[1], device=device))
    told: dict[str, str] = {}
    async with Client(server) as client:

        async def use(name: str, **arguments: Any) -> Any:
            answer = await client.call_tool(name, arguments)
            told[name] = answer.content[0].text
            assert not answer.is_error, f"{name}: {told[name]}"
            return answer.structured_content

        there = {tool.name for tool in (await client.list_tools()).tools}
        await use("hotspots", command=f"{sys.executable} script.py", seconds=2)
        capture = re.search(r"shifted.py:Shifted\s+capture: (\S+)", told["hotspots"])
        assert capture, told["hotspots"]
        task = (await use("open_task", capture=capture[1]))["task"]
        await use("profile", task=task)
        verdict = await use("check", task=task, files=files)
        assert verdict["correct"], told["check"]
        await use("sweep", task=task, defines={macro: [64, 256]})
        for name in sorted(there & {"ablate", "sanitize", "ncu", "skill"}):
            await use(name, **({} if name == "skill" else {"task": task}))
        await use("close_task", task=task)
    assert set(told) == there
    return told
