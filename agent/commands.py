"""What the screen can ask of the engine: one JSON object a line on the engine's standard input.

The engine answers with events on its standard output (``agent.events``), one JSON object a line. It is the only writer
of the session, so a developer's decision becomes an event only through a command.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar


class Command:
    """Base of all commands. ``type`` is its name on the wire."""

    type: ClassVar[str]


@dataclass(frozen=True)
class Run(Command):
    """Start the loop, or go on after it ended: with as much again as the limits say, or with the ``rest`` of them."""

    type: ClassVar[str] = "run"
    rest: bool = False


@dataclass(frozen=True)
class Steer(Command):
    """Tell the agent something; it is read before the next turn, and starts the loop if it rests."""

    type: ClassVar[str] = "steer"
    text: str


@dataclass(frozen=True)
class Interrupt(Command):
    """Stop the run now: the answer being streamed and the tools being run are cut short."""

    type: ClassVar[str] = "interrupt"


@dataclass(frozen=True)
class AcceptHunk(Command):
    """Take one hunk of an attempt (for a kernel file ``hunk`` is ``"file"``)."""

    type: ClassVar[str] = "accept"
    attempt: int
    file: str
    hunk: str


@dataclass(frozen=True)
class RejectHunk(Command):
    """Refuse one hunk of an attempt, with the reason the agent is told."""

    type: ClassVar[str] = "reject"
    attempt: int
    file: str
    hunk: str
    reason: str = ""


@dataclass(frozen=True)
class Land(Command):
    """Write an attempt into the developer's tree: all of it but the hunks rejected. A partial state is judged first.

    With ``commit`` it becomes one commit as well, of the landed files alone. With ``faster`` it lands only if the form in
    which it lands, its checks included, is faster than eager too; with ``untimed`` also if that could not be timed.
    """

    type: ClassVar[str] = "land"
    attempt: int
    commit: bool = False
    faster: bool = False
    untimed: bool = False


@dataclass(frozen=True)
class Measure(Command):
    """Judge an attempt in full once more, on fresh samples."""

    type: ClassVar[str] = "measure"
    attempt: int


@dataclass(frozen=True)
class Undo(Command):
    """Take back a landing, exactly; with ``partly`` what can be of it, where files were edited since."""

    type: ClassVar[str] = "undo"
    landing: int
    partly: bool = False


@dataclass(frozen=True)
class Redo(Command):
    """Take back the undo of a landing, which lands again as it was."""

    type: ClassVar[str] = "redo"
    landing: int


@dataclass(frozen=True)
class AnswerPermission(Command):
    """Answer ``permission_asked``: ``scope`` is that of the choice taken; ``reason`` tells the agent why it was rejected."""

    type: ClassVar[str] = "answer_permission"
    call_id: str
    scope: str
    reason: str = ""


@dataclass(frozen=True)
class SetMode(Command):
    """Choose a permission mode: ``read-only``, ``ask`` or ``auto``."""

    type: ClassVar[str] = "set_mode"
    mode: str


@dataclass(frozen=True)
class TrustSkills(Command):
    """Trust skills of the project: their folders, with the hashes of their files as the developer read them."""

    type: ClassVar[str] = "trust_skills"
    skills: dict[str, str]


@dataclass(frozen=True)
class Close(Command):
    """End the engine: the run is interrupted, everything is on disk already."""

    type: ClassVar[str] = "close"


_TYPES: dict[str, type[Command]] = {
    command.type: command
    for command in (
        Run,
        Steer,
        Interrupt,
        AcceptHunk,
        RejectHunk,
        Land,
        Measure,
        Undo,
        Redo,
        AnswerPermission,
        SetMode,
        TrustSkills,
        Close,
    )
}


def to_json(command: Command) -> dict[str, Any]:
    """Return the command as one JSON object."""
    return {"type": command.type, **dataclasses.asdict(command)}  # type: ignore[call-overload]


def from_json(data: dict[str, Any]) -> Command:
    """Rebuild a command; raises ``KeyError`` for an unknown type and ``TypeError`` for wrong fields."""
    record = _TYPES[data["type"]]
    return record(**{key: value for key, value in data.items() if key != "type"})
