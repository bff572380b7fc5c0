"""Warpsmith's own command line, for what the IDE leaves to a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path


def own_command(*arguments: str, home: Path) -> list[str]:
    """Return the command that runs Warpsmith with these arguments, immune to packages of the working directory."""
    alone = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, alone, "-m", "app.cli", *arguments, "--home", str(home)]
