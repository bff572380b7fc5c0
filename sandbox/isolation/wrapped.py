"""Starting a cell through a wrapper process, which isolates itself, says so, and becomes or watches the program.

The wrapper gets two descriptors: the cell as JSON, and a socket, the lifeline. It says ``ready`` or ``refused`` with the
reason there, later the id of the process that does not descend from it, if there is one, and ends the cell when the other end
is closed, by :func:`kill` or by the death of this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault
from sandbox.isolation.cell import CellProcess

_KILL_SECONDS = 30.0


def start(
    wrapper: Path,
    cell: Mapping[str, Any],
    argv: Sequence[str],
    *,
    where: str,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    seconds: float = 30.0,
    **pipes: Any,
) -> CellProcess:
    """Start a program in a cell and return once it is isolated.

    Args:
        wrapper: The wrapper's script, run by our own interpreter.
        cell: What it is given as JSON.
        argv: The program.
        where: Named in an error.
        options: For the interpreter.
        env: Environment of the wrapper.
        seconds: How long the wrapper may take.
        pipes: Standard streams, as for ``Popen``.

    Raises:
        EnvironmentFault: The wrapper refused, with its reason.
    """
    if not argv:
        raise ValueError("there is no program to run")
    description = os.memfd_create("cell")
    ours, theirs = socket.socketpair()
    try:
        os.write(description, json.dumps(cell).encode())
        os.lseek(description, 0, os.SEEK_SET)
        descriptors = (description, theirs.fileno())
        command = [sys.executable, "-I", *options, str(wrapper), *map(str, descriptors), *argv]
        process = CellProcess(command, pass_fds=descriptors, start_new_session=True, env=dict(env or {}), **pipes)
    finally:
        os.close(description)
        theirs.close()
    process.lifeline = ours
    if refusal := _await_entry(process, seconds):
        kill(process)
        raise EnvironmentFault(
            f"A process could not be isolated: {refusal}.", where=where, next_step="Run `warpsmith doctor`."
        )
    return process


def kill(process: CellProcess) -> None:
    """Close a cell's lifeline and wait until all of it is gone."""
    process.lifeline.close()
    try:
        process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _await_entry(process: CellProcess, seconds: float) -> str:
    """Wait for the wrapper's word; return why it refused, or an empty text."""
    process.lifeline.settimeout(seconds)
    said = b""
    with contextlib.suppress(OSError):
        while b"\n" not in said and (piece := process.lifeline.recv(4096)):
            said += piece
    word, _, more = said.partition(b"\n")
    if word == b"ready":
        process.lifeline.setblocking(False)
        process.told = more
        return ""
    return said.decode(errors="replace").removeprefix("refused ").strip().rstrip(".") or "its wrapper ended early"
