"""The command ``warpsmith``: starts the command line where no package of the developer's can stand in its way."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line and return its exit code.

    A developer's ``PYTHONPATH`` may hold packages called ``app`` or ``agent``. It is meant for their interpreter, so this
    one starts again without it; the variable stays in the environment for theirs.
    """
    if os.environ.get("PYTHONPATH") and not sys.flags.ignore_environment:
        start = "import sys; from warpsmith import main; sys.exit(main())"
        os.execv(sys.executable, [sys.executable, "-I", "-c", start, *sys.argv[1:]])  # noqa: S606
    from app.cli import main as command_line

    return command_line()
