"""Isolation by containers of a Docker engine.

The containers' image is empty but for folders to mount on: a cell sees this machine's own programs and libraries, read-only,
as in the other isolations. A forked process cannot move into a container: so the warm process that workers are forked from is
started in one, and each worker has limits there. What it shares with the judge crosses over one socket (descriptors of
anonymous files, see ``sandbox.house``); process ids are translated. The container's IPC and PID namespaces are its own: memory
of a GPU can be shared across namespaces with the same driver calls (measured through namespaces alone), and where it cannot, the
judge uses the host's. What has not been seen is an engine that hands out GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault
from sandbox.isolation import wrapped
from sandbox.isolation.cell import Cell, CellProcess
from sandbox.isolation.limits import ResourceLimits
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
    """Containers: one for each program, and one for the process that workers are forked from, with all of them."""

    name = "docker"
    workers = "docker"
    holds_zygote = True

    def __init__(self) -> None:
        self._within = ResourceLimits()

    @property
    def description(self) -> str:
        """What is kept from a cell, and what keeps the workers of one container from each other."""
        return (
            "Keeps away every file but the task's, other processes, the network, privileges and dangerous system calls, and "
            "bounds memory, processes, files and time, by containers. Workers share one with the process they are forked from; "
            f"in it, as far as the engine lets Landlock through: {self._within.description.removeprefix('WEAK: ')}"
        )

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start a program in a container of its own; see ``Isolation.popen``."""
        give_writable(cell, _user())
        if not cell.cwd.is_dir():
            # The engine would make it, owned by root.
            raise EnvironmentFault("The folder that a cell shall start in does not exist.", where=str(cell.cwd))
        tmp = {"HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108  (the container's own)
        names = {"user": _user() or os.getuid(), "group": _user() or os.getgid()}
        description = {**names, **as_json(cell, tmp)}
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        where = f"isolation {self.name}"
        return wrapped.start(_CONTAINER, description, argv, where=where, env=env, seconds=_START_SECONDS, **pipes)

    def kill(self, process: CellProcess) -> None:
        """Remove a container with everything in it."""
        wrapped.kill(process)

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell for a worker, forked in a container: limits, and no other user than the container's."""
        give_writable(cell, _user())
        return {"level": self._within.name, "user": None, "housed": True, **as_json(cell, {})}


def _user() -> int | None:
    """Return the user of a container, or None where we are no root and it is ours."""
    return NOBODY if os.geteuid() == 0 else None
