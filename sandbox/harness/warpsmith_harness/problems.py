"""Faults found in the developer's interpreter: of the task, the candidate or the machine, with the place in the source."""

from __future__ import annotations

import errno
import inspect
import os
import traceback
from pathlib import Path
from typing import Any, Dict, List, Optional

_MACHINES = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE)


class TaskProblem(Exception):
    """The task cannot be used. The parent turns it into a ``TaskError``.

    Args:
        what: One sentence on what happened.
        where: ``file:line`` in the developer's code, or the option at fault; empty if nowhere in particular.
        next_step: What the developer can do about it.
    """

    def __init__(self, what: str, where: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, f"({self.where})" if self.where else "", self.next_step) if part)


class CandidateProblem(Exception):
    """The candidate is at fault. ``where`` is a workspace-relative ``file:line``, or empty."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.what} ({self.where})" if self.where else self.what


class MachineProblem(Exception):
    """The machine is at fault: a full disk, no memory. The parent turns it into an ``EnvironmentFault``.

    Args:
        number: Of the system's error (``errno``).
        where: The file at fault, or what was being done; empty if unknown.
    """

    def __init__(self, number: int, where: str = "") -> None:
        super().__init__(os.strerror(number))
        self.number = number
        self.where = where


def machine_problem(error: BaseException) -> Optional[MachineProblem]:
    """Return what an error says about the machine, or None where it may be anybody's fault.

    A compiler wraps the system's error in its own, or quotes it in the text of another program's output, so causes and
    texts are searched.
    """
    for cause in _causes(error):
        if isinstance(cause, MachineProblem):
            return cause
        if isinstance(cause, MemoryError):
            return MachineProblem(errno.ENOMEM)
        if isinstance(cause, OSError) and cause.errno in _MACHINES:
            return MachineProblem(cause.errno, str(cause.filename or ""))
        for number in _MACHINES:
            if os.strerror(number) in str(cause):
                return MachineProblem(number)
    return None


def _causes(error: BaseException) -> List[BaseException]:
    """Return an error and everything it came from, each once."""
    found: List[BaseException] = []
    waiting: List[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and not any(cause is known for known in found):
            found.append(cause)
            waiting += [cause.__cause__, cause.__context__, getattr(cause, "inner_exception", None)]
    return found


def failure(error: Exception) -> Dict[str, Any]:
    """Return the answer for an operation that raised: whose fault it is."""
    import torch

    if isinstance(error, TaskProblem):
        return {"task_problem": [error.what, error.where, error.next_step]}
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return {"task_problem": [f"It does not fit beside its copies: {error}", "", "Give smaller inputs."]}
    machine = machine_problem(error)
    if machine is not None:
        return {"machine_problem": [machine.number, machine.where]}
    return {"fault": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-8000:]}


def summary(error: BaseException) -> str:
    """Return ``TypeError: ...``, the first line of an error's text, clipped to 500 characters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__


def place(error: BaseException, folder: Path, relative: bool = False) -> str:
    """Return the ``file:line`` of the innermost frame that lies in ``folder``, or an empty string.

    A syntax error's own position counts as its innermost frame. With ``relative`` the file is given below ``folder``.
    """
    spots = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        spots.append((error.filename, error.lineno))
    for filename, line in reversed(spots):
        inside = _below(filename, folder)
        if inside is not None:
            return f"{inside if relative else filename}:{line}"
    return ""


def line(thing: Any) -> int:
    """Return the line a function or class starts at, 1 if it is unknown."""
    try:
        return inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return 1


def _below(filename: str, folder: Path) -> Optional[Path]:
    """Return the path of a file below a folder; None when it lies elsewhere or in an environment inside it."""
    try:
        inside = Path(filename).resolve().relative_to(folder.resolve())
    except (ValueError, OSError):
        return None
    # An environment, or this package itself, may lie in the developer's folder without being their code.
    ours = Path(filename).resolve().parent == Path(__file__).resolve().parent
    return None if ours or "site-packages" in inside.parts else inside
