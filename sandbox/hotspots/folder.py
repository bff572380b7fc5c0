"""The folder of a recording: what lies where in it."""

from __future__ import annotations

import shutil
from pathlib import Path

STOP = "stop"
"""Name of the file in a recording's folder that asks its processes to finish; the recorder looks for it."""

RUN_FILE = "run.json"
GAINS_FILE = "gains.json"
CAPTURES = "captures"


_NOTES = ("process", "seen", "torch", "fault")


def remove_recording(folder: Path) -> None:
    """Remove what a run has written into its folder, and nothing else that may lie there."""
    notes = [path for kind in _NOTES for end in ("json", "part") for path in folder.glob(f"{kind}-*.{end}")]
    for path in [*notes, folder / STOP, folder / RUN_FILE, folder / GAINS_FILE]:
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / CAPTURES, ignore_errors=True)


def recording_of(capture: str) -> Path | None:
    """Return the recording that a capture is part of, None where it is part of none that can be run again."""
    folder = Path(capture).parent.parent if capture else None
    return folder if folder is not None and (folder / RUN_FILE).is_file() else None
