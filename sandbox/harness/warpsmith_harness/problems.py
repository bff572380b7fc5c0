"""Faults found in the developer's interpreter: of the task, or of the candidate, with the place in the source."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import Any, Optional


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
