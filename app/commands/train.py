"""The trainer, in this process's place: it needs torch, which the application never loads."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str]) -> NoReturn:
    """Become ``python -m trainer`` with these arguments, immune to packages of the working directory."""
    alone = "-I" if sys.flags.isolated else "-P"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, alone, "-m", "trainer", *arguments])  # noqa: S606 - our own interpreter
