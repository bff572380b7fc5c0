"""A search's folder: ``HOME/searches/NAME/search.jsonl`` holds what it is and which sessions belong to it.

Lines are only ever appended, each flushed to the disk, so that a search that is killed goes on from what stands there.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.settings import Settings
from sandbox.errors import UsageError
from sandbox.task import TaskSpec

RECORD = "search.jsonl"


@dataclass(frozen=True)
class Member:
    """One agent's session in one round. ``base`` is the attempt it began from (``{"session", "attempt"}``)."""

    round: int
    agent: int
    session: Path
    model: str
    idea: str
    base: dict[str, Any] | None = None


@dataclass
class Record:
    """What ``search.jsonl`` says so far; ``ended`` maps sessions to why their agent ended."""

    folder: Path
    task: TaskSpec
    settings: Settings
    agents: int
    rounds: int
    ideas: list[str]
    models: list[str]
    members: list[Member] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Its name on the command line."""
        return self.folder.name.rpartition("-")[2]

    def add(self, member: Member) -> None:
        """Store that a session belongs to the search."""
        self.members.append(member)
        plain = {**vars(member), "session": str(member.session)}
        _append(self.folder, {"type": "member", **plain})

    def relimit(self, limits: Mapping[str, Any]) -> None:
        """Store other limits for the search in all, by their settings' names.

        Raises:
            UsageError: A value cannot be that setting's.
        """
        self.settings = Settings.from_json({**self.settings.to_json(), **limits})
        _append(self.folder, {"type": "limits", **limits})

    def end(self, member: Member, reason: str) -> None:
        """Store why an agent ended in its session."""
        self.ended[str(member.session)] = reason
        _append(self.folder, {"type": "ended", "session": str(member.session), "reason": reason})


def create_record(
    task: TaskSpec, settings: Settings, *, agents: int, rounds: int, ideas: list[str], models: list[str]
) -> Record:
    """Make a search's folder; there is an agent for each idea and for each model at least.

    Raises:
        UsageError: There are fewer answers than sessions to share them.
    """
    agents = max(agents, len(ideas), len(models))
    if settings.turn_limit < agents * rounds:
        raise UsageError(
            f"{settings.turn_limit} turns cannot be shared by {agents} agents in {rounds} round{'s' * (rounds > 1)}.",
            next_step=f"Give {agents * rounds} turns at least, or fewer agents or rounds.",
        )
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder = settings.home / "searches" / f"{stamp}-{secrets.token_hex(4)}"
    folder.mkdir(parents=True, mode=0o700)
    what = {"agents": agents, "rounds": rounds, "ideas": ideas, "models": models}
    _append(folder, {"type": "search", "task": task.to_json(), "settings": settings.to_json(), **what})
    return read_record(folder)


def read_record(folder: Path) -> Record:
    """Read a search; a last line torn by a crash is passed over.

    Raises:
        UsageError: The folder holds no search.
    """
    record = None
    for line in _lines(folder):
        kind = line.pop("type", "")
        if kind == "search":
            task, settings = TaskSpec.from_json(line.pop("task")), Settings.from_json(line.pop("settings"))
            record = Record(folder, task, settings, **line)
        elif kind == "member" and record:
            record.members.append(Member(**{**line, "session": Path(line["session"])}))
        elif kind == "limits" and record:
            record.settings = Settings.from_json({**record.settings.to_json(), **line})
        elif kind == "ended" and record:
            record.ended[line["session"]] = line["reason"]
    if record is None:
        raise UsageError("This is not a search that can be read.", where=str(folder / RECORD))
    return record


def find_record(home: Path, name: str) -> Record:
    """Return the search whose id begins with ``name``, or the newest for ``last``.

    Raises:
        UsageError: There is none, or more than one.
    """
    folders = sorted(path.parent for path in (home / "searches").glob(f"*/{RECORD}"))
    found = folders[-1:] if name == "last" else [f for f in folders if f.name.rpartition("-")[2].startswith(name)]
    if len(found) == 1:
        return read_record(found[0])
    what = f"There is no search '{name}'." if not found else f"'{name}' fits {len(found)} searches."
    raise UsageError(what, where=str(home / "searches"), next_step="Give the id that the search told when it began.")


def _lines(folder: Path) -> list[dict[str, Any]]:
    lines = []
    path = folder / RECORD
    for text in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def _append(folder: Path, data: dict[str, Any]) -> None:
    """Append a line; one that a crash tore is ended first, so that the new one stands alone."""
    with (folder / RECORD).open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(data).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
