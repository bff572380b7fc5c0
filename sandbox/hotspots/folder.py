"""The folder of a recording: what lies where in it."""

from __future__ import annotations

from pathlib import Path

RUN_FILE = "run.json"
GAINS_FILE = "gains.json"
CAPTURES = "captures"


def recording_of(capture: str) -> Path | None:
    """Return the recording that a capture is part of, None where it is part of none that can be run again."""
    folder = Path(capture).parent.parent if capture else None
    return folder if folder is not None and (folder / RUN_FILE).is_file() else None
