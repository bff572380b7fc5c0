"""Writes what is known so far, whole or not at all: the program may be killed at any moment."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


def write_note(path: Path, data: Any) -> None:
    """Write JSON under a name that never holds half of it; a full disk is no reason to disturb the program."""
    part = path.with_suffix(".part")
    with contextlib.suppress(OSError):
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(path)
