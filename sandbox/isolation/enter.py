"""Enter a cell, then execute a program: ``python -I -S enter.py CELL_FD LIFELINE_FD PROGRAM [ARGUMENT...]``.

``CELL_FD`` holds the cell as JSON. ``LIFELINE_FD`` is a socket: it is told ``ready``, or ``refused`` with the reason, and
whoever started this ends the cell by closing the other end.

Bubblewrap executes it a second time, inside, as ``enter.py inside STATE_FD PROGRAM [ARGUMENT...]``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))

from warpsmith_harness.isolate import REFUSED, IsolationRefused, enter, go_on


def main(cell_fd: int, lifeline: int, argv: list[str]) -> None:
    """Become ``argv`` in the cell; does not return."""
    with os.fdopen(cell_fd, "rb") as file:
        cell = json.load(file)
    if cell["level"] == "bubblewrap":
        cell["inside"] = [sys.executable, "-I", "-S", __file__, "inside", None, *argv]
    try:
        enter({**cell, "lifeline": lifeline})
    except IsolationRefused as error:
        os.write(lifeline, f"refused {error}\n".encode())
        os._exit(REFUSED)
    os.close(lifeline)
    execute(argv)


def execute(argv: list[str]) -> None:
    """Become a program; ends with 127 where there is none."""
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606  (there is no shell to want)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        go_on(int(sys.argv[2]))
        execute(sys.argv[3:])
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
