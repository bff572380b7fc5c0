"""One engine of a search: started, told what to do, followed to the end of its run, and closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path

from agent import commands as cmd
from agent import events as ev
from agent.headless import NOBODY_TO_ASK
from agent.session import engine_command, is_open

_LINE_BYTES = 2**30
LOST = "engine_lost"
_LOOKS_AGAIN_SECONDS = 0.2

Follow = Callable[[ev.Event, str], None]


async def drive(
    folder: Path, first: Sequence[cmd.Command], ends: tuple[type[ev.Event], ...], follow: Follow
) -> ev.Event | None:
    """Run a session's engine until an event of ``ends`` after the run began, and return it; None if the engine was lost.

    A session that another engine holds is waited for: one whose driver was killed just now ends by itself. The engine ends
    when its stdin does, so none outlives whoever drives it. Cancelling interrupts the run.
    """
    while is_open(folder):
        await asyncio.sleep(_LOOKS_AGAIN_SECONDS)
    process = await asyncio.create_subprocess_exec(
        *engine_command(folder), stdin=PIPE, stdout=PIPE, start_new_session=True, limit=_LINE_BYTES
    )
    try:
        for command in first:
            _send(process, command)
        return await _end(process, ends, follow)
    except asyncio.CancelledError:
        _send(process, cmd.Interrupt())
        raise
    finally:
        await asyncio.shield(_close(process))


async def _end(process: Process, ends: tuple[type[ev.Event], ...], follow: Follow) -> ev.Event | None:
    ready = False
    assert process.stdout is not None
    async for line in process.stdout:
        event = ev.from_json(json.loads(line))
        if event is None:
            continue
        follow(event, line.decode())
        ready |= isinstance(event, ev.EngineReady)  # before, an engine ends the run of one that was killed
        if isinstance(event, ev.PermissionAsked):
            _send(process, cmd.AnswerPermission(call_id=event.call_id, scope="reject", reason=NOBODY_TO_ASK))
        if ready and isinstance(event, ends):
            return event
    return None


def _send(process: Process, command: cmd.Command) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(json.dumps(cmd.to_json(command)).encode() + b"\n")


async def _close(process: Process) -> None:
    _send(process, cmd.Close())
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    while await process.stdout.read(65_536):
        pass
    await process.wait()
