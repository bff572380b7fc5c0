"""A content-addressed cache on disk: folders of files under a hash, written whole or not at all.

Several processes may use one store at once. Entries are never changed; one that is no longer what was written, on a disk
that lost or cut a file, is removed when it is looked for, and so built again. ``sandbox.machine.cache`` bounds what they take.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

_SUMS = "sums.json"


class Store:
    """A folder of entries, each a folder of files under its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> Path | None:
        """Return an entry's folder, or null where there is none that is whole; finding it counts as using it."""
        entry = self.folder / key
        if not entry.is_dir():
            return None
        if not _is_whole(entry):
            self.discard(key)
            return None
        with contextlib.suppress(OSError):  # what can only be read can be used all the same
            os.utime(entry)
        return entry

    def put(self, key: str, files: Mapping[str, bytes]) -> Path:
        """Store an entry and return its folder; the first writer of a key wins."""
        entry = self.folder / key
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        staged = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            for name, data in {**files, _SUMS: json.dumps(sums).encode()}.items():
                (staged / name).write_bytes(data)
            staged.chmod(0o755)
            with contextlib.suppress(OSError):
                staged.rename(entry)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        if not entry.is_dir():
            raise OSError(f"{entry} could not be written")
        return entry

    def discard(self, key: str) -> None:
        """Remove an entry that cannot be used."""
        shutil.rmtree(self.folder / key, ignore_errors=True)


def _is_whole(entry: Path) -> bool:
    """Whether every file of an entry is there and is what was written."""
    try:
        sums = json.loads((entry / _SUMS).read_bytes())
        return all(hashlib.sha256((entry / name).read_bytes()).hexdigest() == told for name, told in sums.items())
    except (OSError, ValueError, AttributeError):
        return False
