"""Isolation by the kernel's namespaces: a file system, process list and network of its own for every cell."""

from __future__ import annotations

from sandbox.isolation.cell import Cell
from sandbox.isolation.local import LocalIsolation
from sandbox.isolation.users import new_user


class Namespaces(LocalIsolation):
    """Namespaces entered directly; as an ordinary user through a user namespace."""

    name = "namespaces"
    description = (
        "Keeps away every file but the task's, other processes, the network, privileges and dangerous system calls, and bounds "
        "memory, processes, files and time; leaves open what the kernel, which is shared, itself gets wrong."
    )

    def _user(self, _: Cell, /) -> int | None:
        return new_user()

    def _home(self) -> dict[str, str]:
        return {"HOME": "/tmp", "TMPDIR": "/tmp"}  # noqa: S108  (the private one)
