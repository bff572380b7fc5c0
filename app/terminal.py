"""Whether there is a terminal to draw on."""

from __future__ import annotations

import sys

from sandbox.errors import UsageError


def require_terminal(otherwise: str = "warpsmith run TARGET") -> None:
    """Refuse to draw where nobody can see or answer.

    Args:
        otherwise: The command that does the same without a terminal.

    Raises:
        UsageError: Standard input or output is not a terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The IDE needs a terminal.",
            where="standard output" if sys.stdin.isatty() else "standard input",
            next_step=f"Without one, use: {otherwise}",
        )
