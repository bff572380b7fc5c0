"""The hotspots tool: the developer's script is run and ranked by the same command that a person types."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from agent.settings import Settings
from agent.tools.base import ToolProblem
from sandbox.errors import InternalError

_START = "import sys; from warpsmith import main; sys.exit(main())"
_END_SECONDS = 40.0
"""Longer than the command takes to end the script politely."""
_SHOWN = 15
_LAST_LINES = 30


async def rank_script(
    settings: Settings, command: str, *, seconds: float, measure: int, say: Callable[[str], None]
) -> str:
    """Run a script, and return the ranking in words; cancelling ends the script.

    Raises:
        ToolProblem: It could not be run, or called no module: what the script and the command said last.
    """
    options = ["--json", "--no-open", f"--seconds={seconds:g}", f"--measure={measure}", f"--home={settings.home}"]
    options += [f"--cache={settings.cache}", f"--device={settings.device}"]
    options += [f"--python={settings.python}"] if settings.python else []
    flag = "-I" if sys.flags.isolated else "-P"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(flag, "-c", _START, "hotspots", *options, command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, told = await asyncio.gather(_whole(process.stdout), _told(process.stderr, say))
        status = await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise
    if status:
        raise ToolProblem(told or f"The command ended with {status}, and said nothing.")
    try:
        return ranking_text(json.loads(output))
    except ValueError as error:
        raise InternalError(f"The ranking cannot be read: {error}.", where=command) from error


def ranking_text(ranking: Mapping[str, Any]) -> str:
    """Return a ranking (``Ranking.to_json()``) as text sized for a model."""
    spots, lines = ranking["hotspots"], [_seen(ranking)]
    lines += [
        f"{each['share']:6.1%}  {each['target']}  capture: {each['capture'] or 'none'}" for each in spots[:_SHOWN]
    ]
    lines += [f"... and {len(spots) - _SHOWN} more"] if len(spots) > _SHOWN else []
    lines.append("Open one with open_task(capture=...).")
    return "\n".join(lines)


def _seen(ranking: Mapping[str, Any]) -> str:
    return f"{ranking['command']}: {ranking['steps']} steps seen on {ranking['device']}, torch {ranking['torch']}"


async def _whole(pipe: asyncio.StreamReader | None) -> bytes:
    return await pipe.read() if pipe is not None else b""


async def _told(pipe: asyncio.StreamReader | None, say: Callable[[str], None]) -> str:
    """Pass on what the command narrates, and return the last of what it and the script printed."""
    last: list[str] = []
    while pipe is not None and (line := await _line(pipe)):
        text = line.decode(errors="replace").rstrip()
        if text.startswith("hotspots "):
            say(text.removeprefix("hotspots "))
        else:
            last = [*last[-_LAST_LINES:], text]
    return "\n".join(last)


async def _line(pipe: asyncio.StreamReader) -> bytes:
    """Return the next line, or as much of one as there is room for."""
    try:
        return await pipe.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await pipe.read(error.consumed)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
