"""The files of a session's states, read from its blobs and kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from agent.store import read_blob


class Files:
    """Reads the blobs of one session. Safe to use from a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = lru_cache(maxsize=512)(self._read_once)

    def of(self, hashes: Mapping[str, str]) -> dict[str, bytes]:
        """Return the contents of a state's files.

        Raises:
            EnvironmentFault: One of them is missing or damaged.
        """
        return {path: self._read(sha256) for path, sha256 in hashes.items()}

    def blob(self, sha256: str) -> bytes:
        """Return one blob.

        Raises:
            EnvironmentFault: It is missing or damaged.
        """
        return self._read(sha256)

    def _read_once(self, sha256: str) -> bytes:
        return read_blob(self._folder, sha256)
