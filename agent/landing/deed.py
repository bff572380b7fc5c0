"""A landing or an undo as one deed: written, committed if wanted, and settled by the next start if it was cut off.

A journal beside the session says what is being done before it is begun. Whoever finds one that was left completes the
deed if its commit is on the branch already, and takes it back otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.landing.change import FileChange
from agent.landing.commit import Commit, Place, build, publish, settle
from agent.landing.undo import undo
from agent.landing.write import land
from agent.store import BLOBS, read_blob, write_atomically
from sandbox.errors import EnvironmentFault, LandingRefused


@dataclass(frozen=True)
class Deed:
    """What a journal says.

    Attributes:
        changes: What is written.
        note: What the owner of the journal wants to know of it when it is done.
        commit: The commit, once it was built.
    """

    changes: tuple[FileChange, ...]
    note: dict[str, Any]
    commit: Commit | None = None


class Journal:
    """The deed that is being done, in ``landing.json`` of a folder with blobs.

    Args:
        folder: A session's folder, or another that is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "landing.json"

    def begin(self, changes: Sequence[FileChange], note: Mapping[str, Any]) -> None:
        """Note what is about to be done."""
        self._write({"files": [self.entry(change) for change in changes], "note": dict(note)})

    def built(self, commit: Commit) -> None:
        """Note the commit that is about to be published."""
        self._write({**json.loads(self._file.read_bytes()), "commit": commit.to_json()})

    def pending(self) -> Deed | None:
        """Return a deed that was begun and not ended."""
        if not self._file.exists():
            return None
        data = json.loads(self._file.read_bytes())
        commit = Commit(**data["commit"]) if "commit" in data else None
        return Deed(tuple(self.change(entry) for entry in data["files"]), data["note"], commit)

    def end(self) -> None:
        """Forget the deed: it is done and stored, or was taken back."""
        self._file.unlink(missing_ok=True)

    def entry(self, change: FileChange) -> dict[str, Any]:
        """Return a change as JSON data, its contents stored as blobs."""
        return {
            "path": str(change.path),
            "before": self._blob(change.before),
            "after": self._blob(change.after),
            "mode": change.mode,
        }

    def change(self, entry: Mapping[str, Any]) -> FileChange:
        """Rebuild a change from its JSON data."""
        before, after = (
            None if sha is None else read_blob(self._folder, sha) for sha in (entry["before"], entry["after"])
        )
        return FileChange(Path(entry["path"]), before, after, entry["mode"])

    def _blob(self, data: bytes | None) -> str | None:
        if data is None:
            return None
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._folder / BLOBS / sha256
        if not path.exists():
            _store(path, data)
        return sha256

    def _write(self, data: Mapping[str, Any]) -> None:
        _store(self._file, json.dumps(data).encode())


def _store(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        what = f"The landing cannot be noted before it is begun: {error.strerror}."
        raise EnvironmentFault(what, where=str(path), next_step="Free some space, then land again.") from error


def carry_out(
    changes: Sequence[FileChange],
    journal: Journal,
    note: Mapping[str, Any],
    place: Place | None = None,
    message: str = "",
) -> Commit | None:
    """Write the changes and, given a place, commit them; or do nothing. The caller stores what was done and ends the journal.

    Raises:
        LandingRefused: The tree or the repository is not as expected; nothing of it was done.
    """
    commit: Commit | None = None
    journal.begin(changes, note)
    try:
        land(changes)
        if place is not None:
            commit = build(place, changes, message)
            journal.built(commit)
            publish(commit, changes)
    except BaseException:
        if commit is None or not settle(commit, changes):
            take_away(changes)
            journal.end()
        raise
    return commit


def take_away(changes: Sequence[FileChange]) -> None:
    """Take back what was written of a deed that failed.

    Raises:
        LandingRefused: It cannot be; the journal that stays lets the next start do it.
    """
    try:
        undo(changes)
    except LandingRefused as stuck:
        cause = stuck.__cause__.strerror if isinstance(stuck.__cause__, OSError) else stuck.what
        what = f"What was written could not be taken back yet: {cause}."
        next_step = "Mend this; the next start of the session takes it back."
        raise LandingRefused(what, where=stuck.where, next_step=next_step) from stuck


def conclude(deed: Deed) -> bool:
    """Complete a deed that was cut off, or take it back; tell whether it is done now."""
    if deed.commit is not None and settle(deed.commit, deed.changes):
        return True
    undo(deed.changes)
    return False
