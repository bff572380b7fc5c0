"""What the agent's shell can see and use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sandbox.build.toolchain import find_nvcc
from sandbox.errors import EnvironmentFault
from sandbox.isolation import Cell, Limits, interpreter_paths
from sandbox.workspace import Workspace

_LIMITS = Limits(processes=2048, file_bytes=4 * 1024**3, disk_bytes=16 * 1024**3, open_files=8192)


def shell_cell(workspace: Workspace, forbidden: Callable[[str], bool]) -> Cell:
    """Return the cell of the agent's shell: the workspace, the task's interpreter and project, the compilers, and no GPU.

    Args:
        workspace: Where it works.
        forbidden: Whether a rule denies writing at a path; what is there then can only be read.

    Raises:
        EnvironmentFault: The task's interpreter does not run.
    """
    spec = workspace.spec
    project = (spec.root,) if spec.kind == "module" else ()
    toolkit = _toolkit()
    kept = (*workspace.protected, *_forbidden_below(workspace.folder, forbidden))
    folders = [spec.python.parent, *([toolkit / "bin"] if toolkit else [])]
    path = ":".join([*map(str, folders), "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"])
    env = {
        "PATH": path,
        "WORKSPACE": str(workspace.folder),
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "PYTHONDONTWRITEBYTECODE": "1",
        # The history belongs to us, and the shell may run as somebody else.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    return Cell(
        readable=(*kept, *interpreter_paths(spec.python), *project, *([toolkit] if toolkit else [])),
        writable=() if workspace.folder in kept else (workspace.folder,),
        cwd=workspace.folder,
        env=env,
        limits=replace(_LIMITS, memory_bytes=_half_of_memory()),
    )


def _forbidden_below(folder: Path, forbidden: Callable[[str], bool]) -> Iterator[Path]:
    """Yield the folder, or the folders and files in it, that a rule denies writing in; none below another."""
    if forbidden(""):
        yield folder
        return
    for place, below, files in os.walk(folder):
        inside = {path: path.relative_to(folder).as_posix() for path in map(Path(place).joinpath, (*below, *files))}
        shut = [path for path, name in inside.items() if forbidden(f"{name}/" if path.name in below else name)]
        yield from shut
        below[:] = [name for name in below if name != ".git" and Path(place, name) not in shut]


def _toolkit() -> Path | None:
    """Return the folder of the CUDA toolkit that the judge would use, if there is one."""
    try:
        return find_nvcc().root
    except EnvironmentFault:
        return None


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
