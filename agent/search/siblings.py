"""What one session of a search has of the others: the files it begins from, and verdicts of the same code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.search.record import read_record
from agent.session import Session, read_state
from agent.state import Judged, settled
from agent.store import EVENTS, read_blob
from sandbox.errors import UsageError
from sandbox.likeness import likeness
from sandbox.verdict import Tier, Verdict

_ATTEMPT = b'"type": "attempt"'
_TYPE_WITHIN = 100
"""Bytes at the start of a line that hold its type."""


@dataclass(frozen=True)
class Sibling:
    """A verdict that another session of the search has: of its ``attempt``."""

    session: str
    attempt: int
    verdict: Verdict


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


class Siblings:
    """The verdicts of the other sessions of a session's search: each file is read once, and from there on as it grows.

    Slow the first time, so it belongs in a thread; one thread at a time.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._followed: dict[Path, _Followed] = {}

    def verdict_of(self, files: Mapping[str, bytes], tier: Tier) -> Sibling | None:
        """Return a verdict of the same code, however laid out, from another session of the search.

        Only quick verdicts are taken over: a full one is what a landing rests on and is always measured anew.
        """
        if not self._session.search or tier != "quick":
            return None
        code = likeness(dict(files))
        for folder in sibling_folders(self._session):
            followed = self._followed.setdefault(folder, _Followed(folder / EVENTS))
            for judged in reversed(followed.judged()):
                if _same(judged, code, tier):
                    return Sibling(folder.name.split("-")[2], judged.attempt, judged.verdict)
        return None


class _Followed:
    """The attempts of a session that another engine writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._judged: list[Judged] = []
        self._read = 0

    def judged(self) -> Sequence[Judged]:
        """Return the attempts so far; a line that is still being written is left for the next time."""
        if not self._path.exists():
            return self._judged
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if _ATTEMPT in line[:_TYPE_WITHIN]:
                    data = json.loads(line)
                    self._judged.append(Judged(data["attempt"], data["files"], Verdict.from_json(data["verdict"])))
        return self._judged


def sibling_folders(session: Session) -> Iterator[Path]:
    """Yield the other sessions of a session's search, as its record names them."""
    search = session.search or {}
    for agent in read_record(Path(search["folder"])).members:
        if agent.session != session.folder:
            yield agent.session


def _same(judged: Judged, code: str, tier: Tier) -> bool:
    verdict = judged.verdict
    return verdict.tier == tier and verdict.source_sha256 == code and settled(verdict)
