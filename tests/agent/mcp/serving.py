"""The MCP server as a client starts it, on a project with one module."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp import StdioServerParameters

from tests.agent.support import MODULE, UNCOMPILED

COMMAND = [sys.executable, "-P", "-c", "import sys; from warpsmith import main; sys.exit(main())", "mcp"]


def make_project(folder: Path) -> Path:
    """Make a project below a folder, and return its place."""
    project = folder / "project"
    project.mkdir()
    (project / "shifted.py").write_text(MODULE)
    return project


def options(project: Path, device: str = "cpu") -> list[str]:
    """Return the server's options, which keep everything beside the project."""
    return ["--home", str(project.parent / "home"), "--cache", str(project.parent / "cache"), "--device", device]


def server_of(project: Path, device: str = "cpu") -> StdioServerParameters:
    """Return the server to start."""
    kept = {name: os.environ[name] for name in ("WARPSMITH_POOL", "OMP_WAIT_POLICY") if name in os.environ}
    arguments = [*COMMAND[1:], *options(project, device)]
    return StdioServerParameters(command=COMMAND[0], args=arguments, cwd=project, env={**kept, **UNCOMPILED})
