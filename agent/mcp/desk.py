"""Where a client's tasks lie open: which it may open, how many judges are kept warm, and how all of them end."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
from pathlib import Path

from agent.mcp.opened import OpenedTask
from agent.session import create_session, find_session, open_session
from agent.settings import Settings
from sandbox.errors import UsageError
from sandbox.task import TaskSpec

MOST_WARM = 3
"""Judges that are kept open: each holds an interpreter with torch, and on a GPU a context."""


class Desk:
    """Opens, finds and closes tasks.

    Args:
        settings: Of every session; the client chooses none of them.
        allowed: Folders that a client may name something in.
    """

    def __init__(self, settings: Settings, allowed: tuple[Path, ...]) -> None:
        self.settings = settings
        self.allowed = tuple(folder.resolve() for folder in allowed)
        self._opened: dict[str, OpenedTask] = {}
        self._used: dict[str, int] = {}
        self._uses = itertools.count()
        self._one = asyncio.Lock()

    def permitted(self, path: Path) -> Path:
        """Return a path without its links, if it lies in a folder that the client may use.

        Raises:
            UsageError: It does not.
        """
        real = Path(os.path.realpath(path))
        if not any(real == folder or folder in real.parents for folder in self.allowed):
            raise UsageError(
                "This lies outside the folders that this server was started for.",
                where=str(real),
                next_step=f"They are: {', '.join(map(str, self.allowed))}. The developer adds one with --allow FOLDER.",
            )
        return real

    async def open(self, spec: TaskSpec, client: str) -> OpenedTask:
        """Make a session of a task and open it.

        Raises:
            UsageError: The task lies outside the allowed folders, or every judge is at work.
            TaskError, EnvironmentFault: The task or the machine cannot be used.
        """
        self.permitted(spec.path)
        if spec.capture and self.settings.home.resolve() / "recordings" not in Path(spec.capture).resolve().parents:
            self.permitted(Path(spec.capture))
        if spec.inputs.endswith((".pt", ".pth")):
            self.permitted(Path(spec.inputs))
        async with self._one:
            await self._make_room()
            return self._keep(OpenedTask(create_session(spec, self.settings, self.settings.home), client))

    async def find(self, handle: str, client: str) -> OpenedTask:
        """Return a task by its handle; one whose judge was let go, or that an earlier server left, is opened again.

        Raises:
            UsageError: There is none, or it lies outside the allowed folders.
        """
        async with self._one:
            if handle not in self._opened:
                folder = self._folder(handle)
                await self._make_room()
                self._keep(OpenedTask(folder, client))
            self._used[handle] = next(self._uses)
            return self._opened[handle]

    async def close(self, handle: str) -> bool:
        """End a task's judge and let go of its session; the files stay. Returns whether it was open."""
        task = self._opened.pop(handle, None)
        if task is not None:
            await task.come_to_rest()  # ending a judge that still opens would end everything below this process
            await task.close()
        return task is not None

    async def discard(self, handle: str) -> None:
        """Close a task that cannot be used, and remove its session, in which nothing happened."""
        task = self._opened.get(handle)
        if task is not None:
            await self.close(handle)
            shutil.rmtree(task.session.folder, ignore_errors=True)

    async def close_all(self) -> None:
        """End everything that was started, at once."""
        tasks, self._opened = list(self._opened.values()), {}
        await asyncio.gather(*(task.close() for task in tasks))

    def _keep(self, task: OpenedTask) -> OpenedTask:
        self._opened[task.session.id] = task
        self._used[task.session.id] = next(self._uses)
        return task

    async def _make_room(self) -> None:
        """Let go of the judge that was not used for longest, where there are as many as may be."""
        if len(self._opened) < MOST_WARM:
            return
        idle = [handle for handle, task in self._opened.items() if not task.busy.locked()]
        if not idle:
            raise UsageError(
                f"{MOST_WARM} tasks are being judged, and no more are open at a time.",
                next_step="Wait for one of them, or close it with close_task.",
            )
        await self.close(min(idle, key=lambda handle: self._used[handle]))

    def _folder(self, handle: str) -> Path:
        try:
            if not re.fullmatch(r"[0-9a-f]{8}", handle):
                raise UsageError("A handle is eight digits and letters, as open_task tells it.")
            folder = find_session(self.settings.home, handle)
            self.permitted(open_session(folder).task.landing.path)
        except UsageError as error:
            known = ", ".join(self._opened) or "none"
            raise UsageError(
                f"There is no task '{handle}' that can be used here.",
                where=error.what,
                next_step=f"Open are: {known}. Open another with open_task.",
            ) from error
        return folder
