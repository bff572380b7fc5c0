"""Isolation by bubblewrap: for machines that allow namespaces to that program only, as Ubuntu 24.04 with its AppArmor profile.

It ranks below :mod:`sandbox.isolation.namespaces`: the kernel keeps the same away from what is started in it, but workers are
forked from a warm process and cannot be executed anew, so that they have limits only; and a cell also sees our own interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.isolation.cell import Cell, CellProcess
from sandbox.isolation.interpreter import interpreter_paths
from sandbox.isolation.limits import ResourceLimits
from sandbox.isolation.local import ENTER, LocalIsolation
from sandbox.isolation.users import new_user
from sandbox.wire import HARNESS


class Bubblewrap(LocalIsolation):
    """Namespaces made by bubblewrap for programs, limits for workers."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self._workers = ResourceLimits()

    @property
    def workers(self) -> str:
        """The name of what workers are in."""
        return self._workers.name

    @property
    def description(self) -> str:
        """What is kept from builds and the shell, and what workers have instead."""
        return (
            "Keeps away from builds, tools and the shell every file but the task's, other processes, the network, privileges and "
            f"dangerous system calls. Workers have limits only: {self._workers.description}"
        )

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start a program in a cell; see ``Isolation.popen``."""
        inside = (*interpreter_paths(Path(sys.executable)), HARNESS, ENTER)
        return super().popen(argv, replace(cell, readable=(*inside, *cell.readable)), **pipes)

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell for a forked worker, which has limits only."""
        return self._workers.worker_cell(cell)

    def _user(self, _: Cell, /) -> int | None:
        return new_user()

    def _home(self) -> dict[str, str]:
        return {"HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108  (the private one)
