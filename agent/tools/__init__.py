"""The tools of the agent that work on the workspace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent.tools.base import Tool
from agent.tools.bash import BashTools
from agent.tools.files import Files
from agent.tools.notebook import Notebooks
from agent.tools.places import Places
from agent.tools.search import Search
from agent.tools.shell import Shell
from agent.tools.surroundings import shell_cell
from agent.tools.todo import todo_tool
from sandbox.isolation import Isolation
from sandbox.workspace import Workspace


@dataclass(frozen=True)
class WorkspaceTools:
    """The tools, to be iterated over, and what they hold.

    Tools with ``read_only`` may run at the same time as each other; the others one after the other. A tool that is
    cancelled stops what it was doing. The shell starts with the first command and belongs to the event loop that ran it.
    """

    tools: tuple[Tool, ...]
    shell: Shell
    files: Files

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def close(self) -> None:
        """Kill the shell with everything it started. It can be called twice, and the tools used again."""
        self.shell.close()


def workspace_tools(
    workspace: Workspace,
    isolation: Isolation,
    on_todo: Callable[[list[dict[str, str]]], None],
    forbidden: Callable[[str], bool] = lambda _: False,
) -> WorkspaceTools:
    """Return Bash, BashOutput, KillBash, Read, Write, Edit, MultiEdit, Glob, Grep, NotebookEdit and TodoWrite.

    Args:
        workspace: What they work on, and nothing else.
        isolation: How the shell is kept from everything else.
        on_todo: Told the whole plan whenever the model writes it, as items of content and status.
        forbidden: Whether a rule denies writing at a path, so that the shell cannot either.
    """
    shell = Shell(isolation, functools.partial(shell_cell, workspace, forbidden))
    places = Places(workspace)
    files = Files(places)
    families = (BashTools(shell), files, Search(places), Notebooks(places))
    tools = (*(tool for family in families for tool in family.tools()), todo_tool(on_todo))
    return WorkspaceTools(tools, shell, files)
