"""Where recordings of the developer's runs are kept: ``HOME/recordings/NAME``, the last ones and those that sessions use."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from agent.session import SESSION_FILE
from sandbox.errors import EnvironmentFault

KEPT = 8


def new_recording(home: Path) -> Path:
    """Make the folder of a new recording, and remove old ones that no session uses.

    Raises:
        EnvironmentFault: ``home`` cannot be written.
    """
    parent = home / "recordings"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _prune(home, parent)
        for number in range(1000):
            folder = parent / (f"{stamp}-{number}" if number else stamp)
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                return folder
    except OSError as error:
        raise EnvironmentFault(
            f"No recording can be made: {error.strerror}.",
            where=str(parent),
            next_step="Free some space, or choose another place with --save or --home.",
        ) from error
    raise EnvironmentFault("No recording can be made: every name is taken.", where=str(parent))


def _prune(home: Path, parent: Path) -> None:
    sessions = "".join(path.read_text(errors="replace") for path in (home / "sessions").glob(f"*/{SESSION_FILE}"))
    for folder in sorted(parent.iterdir())[: -(KEPT - 1)]:
        if f"/{parent.name}/{folder.name}/" not in sessions:
            shutil.rmtree(folder, ignore_errors=True)
