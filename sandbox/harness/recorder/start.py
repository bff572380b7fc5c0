"""Starts the recorder of this process, and sees to it that no fault of it reaches the developer's program."""

from __future__ import annotations

import atexit
import os
import traceback
from pathlib import Path
from typing import Any

from .note import write_note

OLDEST_TORCH = (2, 4)


def start(place: str, torch: Any) -> None:
    """Record this process into a folder, unless its torch is too old for that."""
    folder = Path(place)
    try:
        version = tuple(int(part) for part in torch.__version__.split(".")[:2])
        note = {"pid": os.getpid(), "torch": torch.__version__, "supported": version >= OLDEST_TORCH}
        write_note(folder / f"torch-{os.getpid()}.json", note)
        if version >= OLDEST_TORCH:
            _record(folder)
    except Exception:  # the one boundary of this module: the program goes on as if nobody recorded it
        write_note(folder / f"fault-{os.getpid()}.json", {"fault": traceback.format_exc()})


def _record(folder: Path) -> None:
    from .hooks import attach  # an old torch lacks what these import
    from .recorder import Recorder

    recorder = Recorder(folder)
    recorder.captures.begin()
    attach(recorder)
    atexit.register(recorder.finish)
    os.register_at_fork(after_in_child=recorder.begin_in_child)
