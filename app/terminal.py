"""Whether there is a terminal to draw on."""

from __future__ import annotations

import sys

from sandbox.errors import UsageError


def require_terminal() -> None:
    """Refuse to draw where nobody can see or answer.

    Raises:
        UsageError: Standard input or output is not a terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The IDE needs a terminal.",
            where="standard output" if sys.stdin.isatty() else "standard input",
            next_step="Without one, use: warpsmith run TARGET",
        )
