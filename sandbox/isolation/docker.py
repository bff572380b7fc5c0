"""Isolation by a container of a Docker engine, for builds and the agent's shell.

The container's image is empty but for folders to mount on: a cell sees this machine's own programs and libraries, read-only,
as in the other isolations. Workers are forked from a warm process and cannot move into a container: they use the strongest
isolation of this machine beside it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault
from sandbox.isolation import wrapped
from sandbox.isolation.cell import Cell, CellProcess, Isolation
from sandbox.isolation.local import as_json
from sandbox.isolation.users import NOBODY, give_writable

_CONTAINER = Path(__file__).with_name("container.py")
_PASSED_ON = (
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "DOCKER_CONTEXT",
    "HOME",
    "PATH",
    "XDG_RUNTIME_DIR",
)
_START_SECONDS = 120.0


class Docker:
    """Containers; ``workers`` is the isolation of what cannot be started in one."""

    name = "docker"

    def __init__(self, workers: Isolation) -> None:
        self._workers = workers

    @property
    def workers(self) -> str:
        """The name of what workers are in."""
        return self._workers.name

    @property
    def description(self) -> str:
        """What is kept from a cell, and what workers have instead."""
        return (
            "Keeps away from builds, tools and the shell every file but the task's, other processes, the network, privileges and "
            f"dangerous system calls, by containers. Workers have {self._workers.name}: {self._workers.description}"
        )

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start a program in a container of its own; see ``Isolation.popen``."""
        user = NOBODY if os.geteuid() == 0 else None
        give_writable(cell, user)
        if not cell.cwd.is_dir():
            # The engine would make it, owned by root.
            raise EnvironmentFault("The folder that a cell shall start in does not exist.", where=str(cell.cwd))
        tmp = {"HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108  (the container's own)
        names = {"user": user or os.getuid(), "group": user or os.getgid()}
        description = {**names, **as_json(cell, tmp)}
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        where = f"isolation {self.name}"
        return wrapped.start(_CONTAINER, description, argv, where=where, env=env, seconds=_START_SECONDS, **pipes)

    def kill(self, process: CellProcess) -> None:
        """Remove a container with everything in it."""
        wrapped.kill(process)

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell for a forked worker, in the isolation that workers use."""
        return self._workers.worker_cell(cell)
