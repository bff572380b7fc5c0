"""Verdicts that several sessions have in common: those of a search, or those of one step of a cycle.

Sessions that write the same code need not have it measured once each. A verdict lies in a file by the hash of what it is of,
and while one session has something judged, the others that want the same wait for what comes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.session import Session
from agent.state import Judged, settled
from agent.store import another_place, write_atomically
from sandbox.errors import EnvironmentFault
from sandbox.judge_version import judge_version
from sandbox.likeness import likeness
from sandbox.original import NOT_TRUSTED
from sandbox.verdict import Tier, Verdict

_LOOKS_AGAIN_SECONDS = 0.1


def _quietly() -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class SharedVerdict:
    """A verdict that a session has: of its ``attempt``."""

    session: str
    attempt: int
    verdict: Verdict


class SharedVerdicts:
    """What a session shares; without a search or a cycle nothing.

    The agents of a search share quick verdicts: a full one is what a landing rests on, and is measured anew. The sessions of one
    step of a cycle share full ones too, which are rewards: each step measures what it is given, so that a lucky time is
    nobody's for longer.

    Attributes:
        told: Whether the agent is told whose a verdict is. A policy in training is not: what it reads is what it would read
            anywhere.
    """

    def __init__(self, session: Session) -> None:
        self.told = bool(session.search)
        self._session = session
        self._folder = Path(session.search["folder"]) / "verdicts" if session.search else session.verdicts
        self._tiers = ("quick",) if session.search else ("quick", "full")

    def known(self, files: Mapping[str, bytes], tier: Tier) -> SharedVerdict | None:
        """Return the verdict of the same code, however laid out; none where nobody has one."""
        path = self._path(files, tier)
        return _verdict(_read(path)) if path else None

    @contextlib.asynccontextmanager
    async def once(
        self, files: Mapping[str, bytes], tier: Tier, on_wait: Callable[[], None] = _quietly
    ) -> AsyncIterator[SharedVerdict | None]:
        """Give the verdict of the same code; where there is none, nobody else has it judged before the context ends.

        Args:
            files: The code.
            tier: Of the verdict.
            on_wait: Called where another session has it judged just now, and is waited for.

        Raises:
            EnvironmentFault: The folder cannot be written.
        """
        async with _alone(self._path(files, tier), on_wait) as found:
            yield _verdict(found)

    def keep(self, files: Mapping[str, bytes], judged: Judged) -> None:
        """Let others have an attempt's verdict, if another measurement would not change it."""
        if settled(judged.verdict):
            shared = {"session": self._session.id, "attempt": judged.attempt, "verdict": judged.verdict.to_json()}
            _write(self._path(files, judged.verdict.tier), shared)

    @contextlib.asynccontextmanager
    async def original_once(self, on_wait: Callable[[], None] = _quietly) -> AsyncIterator[dict[str, Any] | None]:
        """Give the profile of the original; where there is none, nobody else measures it before the context ends.

        Args:
            on_wait: See ``once``.

        Raises:
            EnvironmentFault: The folder cannot be written.
        """
        async with _alone(self._original(), on_wait) as found:
            yield found

    def keep_original(self, profile: dict[str, Any]) -> None:
        """Let others have the profile of the original, unless the machine was disturbed."""
        if not any(NOT_TRUSTED in note for note in profile["notes"]):
            _write(self._original(), profile)

    def _path(self, files: Mapping[str, bytes], tier: Tier) -> Path | None:
        """Return where a verdict of this code lies; none where it is not shared."""
        return self._named(likeness(dict(files)), tier) if self._folder and tier in self._tiers else None

    def _original(self) -> Path | None:
        return self._named("original") if self._folder else None

    def _named(self, *what: str) -> Path:
        assert self._folder is not None  # whoever shares nothing names nothing
        task, tier = json.dumps(self._session.task.to_json(), sort_keys=True), self._session.settings.reward_tier
        whole = (task, judge_version(), tier, *what)
        return self._folder / f"{hashlib.sha256(repr(whole).encode()).hexdigest()}.json"


@contextlib.asynccontextmanager
async def _alone(path: Path | None, on_wait: Callable[[], None]) -> AsyncIterator[dict[str, Any] | None]:
    """Give what a file holds; where there is none, nobody else is given it before the context ends."""
    if path is None:
        yield None
        return
    lock = _opened(path.with_suffix(".lock"))
    try:
        while not path.is_file() and not _taken(lock):
            on_wait()
            on_wait = _quietly
            await asyncio.sleep(_LOOKS_AGAIN_SECONDS)
        yield _read(path)
    finally:
        os.close(lock)


def _verdict(found: dict[str, Any] | None) -> SharedVerdict | None:
    if found is None:
        return None
    return SharedVerdict(found["session"], found["attempt"], Verdict.from_json(found["verdict"]))


def _read(path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(path.read_bytes()) if path.is_file() else None
    return found


def _write(path: Path | None, data: dict[str, Any]) -> None:
    if path is not None:
        with contextlib.suppress(OSError):  # others then measure it themselves
            write_atomically(path, json.dumps(data).encode())


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        what = f"Verdicts cannot be shared: {error.strerror}."
        raise EnvironmentFault(what, where=str(path.parent), next_step=another_place(error)) from error


def _taken(lock: int) -> bool:
    """Take a lock, which falls to the next when this process closes it or ends; return whether nobody else had it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
