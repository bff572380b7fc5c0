"""Sessions of our own loop and judge, side by side and without a screen, that the policy in training writes.

Each is an engine in a process of its own, as on the command line, and ends for one of the named reasons. One that was cut off
goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.search.driving import LOST, drive
from agent.session import summarise
from sandbox.errors import EnvironmentFault, TaskError

_UNDONE = ("new", "running", "stopped", LOST, EndReason.INTERRUPTED, EndReason.MODEL_ERROR, EndReason.ENVIRONMENT)
"""Outcomes of sessions that go on when they are run again: nothing of the task's or the policy's own ended them."""
_FAULTS = (EndReason.MODEL_ERROR, EndReason.ENVIRONMENT, EndReason.INTERNAL_ERROR, EndReason.TASK_UNUSABLE, LOST)


@dataclass(frozen=True)
class _End:
    reason: str
    detail: str


Tell = Callable[[str], None]


def run_sessions(folders: Sequence[Path], at_once: int, tell: Tell) -> None:
    """Run sessions to their ends, those that are over already left as they are.

    Args:
        folders: Of the sessions, which exist.
        at_once: How many run side by side.
        tell: Is told of each that ends, in one line.

    Raises:
        TaskError: None could be done because of its task.
        EnvironmentFault: None could be done because of the server, the machine or us.
    """
    ends = asyncio.run(_all(folders, at_once, tell))
    faults = [end for end in ends if end.reason in _FAULTS]
    if not faults or len(faults) < len(folders):
        return
    counted = ", ".join(f"{times} × {reason}" for reason, times in Counter(end.reason for end in faults).items())
    unusable = all(end.reason == EndReason.TASK_UNUSABLE for end in faults)
    raise (TaskError if unusable else EnvironmentFault)(
        f"Not one of {len(folders)} sessions could be done ({counted}). The first said: {faults[0].detail}",
        where=str(folders[0].parent),
        next_step="Mend that and give the same command again, which goes on with these sessions.",
    )


async def _all(folders: Sequence[Path], at_once: int, tell: Tell) -> list[_End]:
    free = asyncio.Semaphore(at_once)

    async def one(folder: Path) -> _End:
        async with free:
            ended = await drive(folder, [cmd.Run()], (ev.RunEnded,), lambda *_: None)
        end = (
            _End(ended.reason, ended.detail) if isinstance(ended, ev.RunEnded) else _End(LOST, "Its engine was killed.")
        )
        reward = summarise(folder).best_reward
        tell(f"session {folder.name.split('-')[2]}: {end.reason}, reward {'unknown' if reward is None else reward}")
        return end

    undone = [folder for folder in folders if summarise(folder).outcome in _UNDONE]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(folder)) for folder in undone]
    return [task.result() for task in tasks]
