import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.tools import WorkspaceTools, workspace_tools
from agent.tools.base import ToolResult
from sandbox.isolation import best_isolation
from sandbox.task import TaskSpec
from sandbox.workspace import Workspace

REFERENCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


class Hands:
    """The tools as a model uses them: a name, arguments, a result."""

    def __init__(self, tools: WorkspaceTools, workspace: Workspace, plans: list[list[dict[str, str]]]) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.workspace = workspace
        self.folder = workspace.folder
        self.plans = plans
        self.all = tools

    async def use(self, name: str, **arguments: Any) -> ToolResult:
        return await self.tools[name].run(arguments)

    async def done(self, name: str, **arguments: Any) -> str:
        """Use a tool that must succeed."""
        result = await self.use(name, **arguments)
        assert result.ok, result.text
        return result.text

    async def refused(self, name: str, **arguments: Any) -> str:
        """Use a tool that must not succeed."""
        result = await self.use(name, **arguments)
        assert not result.ok, result.text
        return result.text


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    project = tmp_path / "project"
    project.mkdir()
    (project / "task.py").write_text(REFERENCE)
    spec = TaskSpec("kernelbench", project / "task.py", "Model", "task", project, Path(sys.executable))
    return Workspace.create(spec, tmp_path / "workspace")


@pytest.fixture
def hands(workspace: Workspace) -> Iterator[Hands]:
    plans: list[list[dict[str, str]]] = []
    tools = workspace_tools(workspace, best_isolation(), plans.append)
    yield Hands(tools, workspace, plans)
    tools.close()
