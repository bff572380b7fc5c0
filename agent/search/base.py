"""What a session of a search begins from: the original, or the best attempt of the round before."""

from __future__ import annotations

from pathlib import Path

from agent.session import Session, read_state
from agent.store import read_blob
from sandbox.errors import UsageError


def base_files(session: Session) -> dict[str, bytes]:
    """Return the files that a session of a search begins from; empty where it begins from the original.

    Raises:
        UsageError: The attempt it begins from is gone.
    """
    base = (session.search or {}).get("base")
    if not base:
        return {}
    folder = Path(base["session"])
    judged = read_state(folder).attempt(base["attempt"])
    if judged is None:
        raise UsageError(
            f"Attempt {base['attempt']}, which this session begins from, is gone.",
            where=str(folder),
            next_step="Begin a new search.",
        )
    return {path: read_blob(folder, sha256) for path, sha256 in judged.files.items()}
