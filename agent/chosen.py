"""The sessions that a command line names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.replay import RECORDINGS
from agent.session import SESSION_FILE, find_session, session_folders
from sandbox.errors import UsageError


def chosen_sessions(names: Sequence[str], home: Path, *, everything: bool = False) -> list[Path]:
    """Return the folders of sessions, each once: ``last``, a folder, the beginning of an id, or a bundled recording's name.

    With ``everything`` all sessions there are, oldest first.

    Raises:
        UsageError: None is named, or there is none of that name.
    """
    if everything:
        return session_folders(home)[::-1]
    if not names:
        raise UsageError("No session is named.", where="command line", next_step="Name some, 'last', or say --all.")
    return list(dict.fromkeys(_folder(home, name) for name in names))


def _folder(home: Path, name: str) -> Path:
    bundled = RECORDINGS / name
    return bundled if "/" not in name and (bundled / SESSION_FILE).is_file() else find_session(home, name)
