"""Looking at the workspace in ways that are no verdict, for the tools that do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agent.judging import Judging
from agent.tools.base import ToolProblem
from sandbox.errors import TaskError, UsageError
from sandbox.looking.study import Study
from sandbox.workspace import Workspace

T = TypeVar("T")


async def look_at(judging: Judging, workspace: Workspace, look: Callable[[Study], T]) -> T:
    """Return what is seen of the workspace as it is now; no attempt, no verdict.

    Raises:
        ToolProblem: It cannot be looked at so; says what to change.
        EnvironmentFault, TaskError: The machine or the task is at fault.
    """
    try:
        return await judging.study(workspace.files(), look)
    except TaskError:
        raise
    except UsageError as error:
        raise ToolProblem(str(error)) from error
