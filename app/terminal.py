"""Whether there is a terminal to draw on."""

from __future__ import annotations

import os
import sys

from sandbox.errors import UsageError


def require_terminal(otherwise: str = "warpsmith run TARGET") -> None:
    """Refuse to draw where nobody can see or answer.

    Args:
        otherwise: The command that does the same without a terminal.

    Raises:
        UsageError: Standard input or output is not a terminal, or this process is in the terminal's background: it would be
            stopped as soon as it drew, and as often as it is told to end.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The IDE needs a terminal.",
            where="standard output" if sys.stdin.isatty() else "standard input",
            next_step=f"Without one, use: {otherwise}",
        )
    if _in_background():
        raise UsageError(
            "The IDE was started in the background of its terminal, where no key reaches it.",
            where="standard input",
            next_step="Start it in the foreground (under timeout: timeout --foreground), or use: " + otherwise,
        )


def _in_background() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp()
    except OSError:  # a terminal that is nobody's: there are no jobs
        return False
