"""One task that a client works on: a session with its workspace, its judge, and the tools that ask it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from agent import events as ev
from agent.judging import Judging
from agent.session import Session, open_session, read_state
from agent.state import Judged
from agent.store import SessionWriter
from agent.stream import Stream
from agent.tools.base import Tool, ToolProblem
from agent.tools.check import check_tool
from agent.tools.ncu import ncu_tool
from agent.tools.profile import profile_tool
from agent.tools.sanitize import sanitize_tool
from agent.tools.sweep import ablate_tool, sweep_tool
from sandbox.errors import WarpsmithError
from sandbox.judge import Judge
from sandbox.verdict import Tier
from sandbox.workspace import KERNELS, Workspace

_GONE_ON = "The session goes on through MCP."


class OpenedTask:
    """A session that is open in this process.

    Args:
        folder: The session's folder.
        client: Who works on it, as ``SessionStarted.model`` keeps it.

    Attributes:
        session: What the session is.
        workspace: Where the client edits.
        stream: The session's events.
        tools: By name, what can be asked of the judge.
        busy: Held while something is done to the workspace or the judge.

    Raises:
        UsageError: The session is open elsewhere.
        TaskError, EnvironmentFault: The workspace cannot be made.
    """

    def __init__(self, folder: Path, client: str) -> None:
        self.session: Session = open_session(folder)
        self.busy = asyncio.Lock()
        writer = SessionWriter(folder)
        try:
            self._nowhere = os.open(os.devnull, os.O_WRONLY)
            self.stream = Stream(writer, self._nowhere, read_state(folder))
            self.workspace = Workspace.open(self.session.task, self.session.workspace)
            self._begin(client)
        except BaseException:
            writer.close()
            raise
        self.judging = Judging(self.session, self.stream, _told_to_whoever_asks)
        self._opening: asyncio.Task[Judge] | None = None
        self.tools: Mapping[str, Tool] = {tool.name.lower(): tool for tool in self._make_tools()}

    async def ready(self) -> None:
        """Wait until the judge has loaded and accepted the task.

        Raises:
            TaskError, EnvironmentFault: The task or the machine cannot be used.
        """
        self._opening = self.judging.open()
        await asyncio.shield(self._opening)

    async def come_to_rest(self) -> None:
        """Wait until the judge is not being opened any more, however that ends."""
        if self._opening is not None:
            await asyncio.wait([self._opening])

    def listen(self, listener: Callable[[ev.Event], None]) -> Callable[[], None]:
        """Have a listener told of every event; returns what ends that."""
        self.stream.listeners.append(listener)
        return lambda: self.stream.listeners.remove(listener)

    def write(self, files: Mapping[str, Any]) -> None:
        """Write a client's files into the workspace: text by path; null removes a file of ``kernels/``.

        Raises:
            ToolProblem: A path is not part of an attempt, or a content is no text.
        """
        present = self.workspace.files()
        for path, content in files.items():
            self._require_part(path)
            if content is None:
                present.pop(path, None)
            elif isinstance(content, str):
                present[path] = content.encode()
            else:
                raise ToolProblem(f"The content of {path} must be text, or null to remove the file.")
        self._take(present)

    def copy(self, folder: Path) -> None:
        """Take a folder of the client's as the workspace's state: its Python file and all of its ``kernels/``.

        Raises:
            UsageError: There is no candidate in it; links are not followed.
        """
        self._take(Workspace(folder, self.session.task).files())

    def judged_now(self, tier: Tier) -> Judged | None:
        """Return the newest verdict of this tier on the workspace as it is."""
        hashes = {path: self.stream.blob(content) for path, content in self.workspace.files().items()}
        found = [each for each in self.stream.state.judged if each.files == hashes and each.verdict.tier == tier]
        return found[-1] if found else None

    async def close(self) -> None:
        """End the judge with all its processes, and let go of the session."""
        await self.judging.close()
        self.stream.writer.close()
        os.close(self._nowhere)

    def _begin(self, client: str) -> None:
        if self.stream.state.started:
            self.stream.emit(ev.SessionResumed(note=_GONE_ON))
            return
        files = {path: self.stream.blob(content) for path, content in self.workspace.files().items()}
        self.stream.emit(
            ev.SessionStarted(
                task=self.session.task.to_json(),
                model=client,
                device=self.session.device,
                versions=self.session.versions,
                files=files,
            )
        )

    def _make_tools(self) -> list[Tool]:
        judging, workspace = self.judging, self.workspace
        on_gpu = self.session.device == "cuda"
        return [
            check_tool(judging, workspace, self.stream),
            profile_tool(judging),
            *(tool(judging, workspace) for tool in (sanitize_tool, sweep_tool, ablate_tool)),
            *([ncu_tool(judging, workspace, self.session.folder / "ncu")] if on_gpu else []),
        ]

    def _require_part(self, path: str) -> None:
        file = self.session.task.candidate_file
        parts = PurePosixPath(path).parts
        if path != file and (len(parts) < 2 or parts[0] != KERNELS or ".." in parts):
            raise ToolProblem(f"'{path}' is no file of a candidate: it is {file} and files below {KERNELS}/.")

    def _take(self, files: Mapping[str, bytes]) -> None:
        self.workspace.restore(files)
        self.workspace.files()  # says what is wrong with them


def _told_to_whoever_asks(error: WarpsmithError) -> None:
    """Tell nobody: a judge that does not open fails the call that needs it."""
