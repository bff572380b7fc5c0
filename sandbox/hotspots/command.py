"""The developer's command: from the words they typed to what is started, without a shell."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import UsageError
from sandbox.target import find_interpreter

RECORDER = Path(__file__).resolve().parent.parent / "harness" / "recorder"
RECORD_VARIABLE = "WARPSMITH_RECORD"
CAPTURE_VARIABLE = "WARPSMITH_CAPTURE"
WEIGHTS_VARIABLE = "WARPSMITH_CAPTURE_WEIGHTS"

_SHELL_WORDS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1"}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Command:
    """What is started.

    Attributes:
        argv: The program, found, with its arguments.
        variables: Environment variables that were set before it.
        search: The ``PATH`` it is started with.
        text: The command as it was typed.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    search: str
    text: str


def parse_command(words: Sequence[str], *, python: str = "") -> Command:
    """Read a command from one text, as in a shell, or from several words, as they are.

    Args:
        words: What stands on the command line after ``hotspots``.
        python: An interpreter or virtual environment whose programs come first, as when it is activated; it is also what
            ``python`` and ``python3`` mean.

    Raises:
        UsageError: There is no command, it needs a shell, or there is no such program.
        EnvironmentFault: There is no such interpreter.
    """
    interpreter = find_interpreter(python) if python else None
    parts = _split(words[0]) if len(words) == 1 else list(words)
    variables: dict[str, str] = {}
    while parts and _ASSIGNMENT.match(parts[0]):
        name, _, value = parts.pop(0).partition("=")
        variables[name] = value
    if not parts:
        raise UsageError(
            "There is no command to run.", where="hotspots", next_step='Name one: warpsmith hotspots "python train.py"'
        )
    if len(words) == 1 and (found := next((part for part in parts if part in _SHELL_WORDS), "")):
        raise UsageError(
            f"The command is started without a shell, which '{found}' would need.",
            where=words[0],
            next_step=f"Write: warpsmith hotspots -- bash -c {shlex.quote(words[0])}",
        )
    first = str(interpreter.parent) if interpreter else ""
    search = os.pathsep.join(filter(None, (first, variables.get("PATH") or os.environ.get("PATH", ""))))
    text = words[0] if len(words) == 1 else shlex.join(words)
    own = interpreter is not None and parts[0] in ("python", "python3")
    program = str(interpreter) if own else _program(parts[0], search)
    return Command((program, *parts[1:]), variables, search, text)


def environment_of(command: Command, folder: Path, capture_bytes: int, capture_weights: bool) -> dict[str, str]:
    """Return the environment in which every Python process of the command records itself into a folder.

    Args:
        command: What is started.
        folder: Where the recording goes.
        capture_bytes: What the captured inputs may come to; 0 captures nothing.
        capture_weights: Whether captures copy the state of modules whatever its size.
    """
    whole = {**os.environ, **command.variables, "PATH": command.search}
    path = os.pathsep.join(filter(None, (str(RECORDER), whole.get("PYTHONPATH", ""))))
    wanted = {CAPTURE_VARIABLE: str(capture_bytes), WEIGHTS_VARIABLE: "1" if capture_weights else ""}
    return {**whole, "PYTHONPATH": path, RECORD_VARIABLE: str(folder), **wanted}


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"The command cannot be read: {error}.", where=text, next_step="Look at its quotation marks."
        ) from error


def _program(name: str, search: str) -> str:
    found = shutil.which(name, path=search)
    if found is not None:
        return found
    if name.endswith(".py") and Path(name).is_file():
        raise UsageError(
            "A Python file is started by an interpreter.", where=name, next_step=f'Write: "python {name} ..."'
        )
    raise UsageError(
        "There is no such program.",
        where=name,
        next_step="Check the spelling, activate your environment, or name it with --python.",
    )
