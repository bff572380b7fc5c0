"""What the isolations on this machine share: starting a cell through ``enter.py``, ending it, describing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.isolation import wrapped
from sandbox.isolation.cell import DEFAULT_ENV, Cell, CellProcess
from sandbox.isolation.keys import secrets_in
from sandbox.isolation.users import give_writable

ENTER = Path(__file__).with_name("enter.py")


class LocalIsolation:
    """Base of the isolations that need no service; they differ in their level."""

    name: str
    holds_zygote = False

    @property
    def workers(self) -> str:
        """The name of what workers are in."""
        return self.name

    def popen(self, argv: Sequence[str], cell: Cell, **pipes: Any) -> CellProcess:
        """Start a program in a cell; see ``Isolation.popen``."""
        where = f"isolation {self.name}"
        return wrapped.start(ENTER, self._described(cell), argv, where=where, options=["-S"], **pipes)

    def kill(self, process: CellProcess) -> None:
        """Kill a cell with all its descendants and wait until they are gone."""
        wrapped.kill(process)

    def worker_cell(self, cell: Cell) -> dict[str, Any]:
        """Return the cell for a forked worker; see ``Isolation.worker_cell``."""
        return self._described(cell)

    def _described(self, cell: Cell) -> dict[str, Any]:
        """Return the cell as JSON data, and give its writable folders to the user it will run as."""
        user = self._user(cell)
        give_writable(cell, user)
        return {"level": self.name, "user": user, **as_json(cell, self._home())}

    def _user(self, cell: Cell, /) -> int | None:
        """Return the user id a cell changes to, or None to keep ours."""
        raise NotImplementedError

    def _home(self) -> dict[str, str]:
        raise NotImplementedError


def as_json(cell: Cell, home: Mapping[str, str]) -> dict[str, Any]:
    """Return a cell as JSON data, with defaults in its environment and with keys in its readable folders hidden."""
    return {
        "readable": [str(path.absolute()) for path in cell.readable],
        "writable": [str(path.absolute()) for path in cell.writable],
        "hidden": [str(path.absolute()) for path in (*cell.hidden, *secrets_in(cell.readable))],
        "cwd": str(cell.cwd.absolute()),
        "env": {**DEFAULT_ENV, **home, **cell.env},
        "limits": vars(cell.limits),
        "gpu": cell.gpu,
    }
