"""What the agent's stream is made of on the screen: words, tool calls, what the developer said, and notices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

CallStatus = Literal["writing", "waiting", "running", "ok", "failed", "cut"]
Speaker = Literal["task", "you", "decision", "notice", "contrast"]
Tone = Literal["info", "good", "bad", "warn"]


@dataclass
class Block:
    """One entry of the stream. ``time`` is Unix time; ``version`` grows with every change, so that a view can cache."""

    time: float
    version: int = field(default=0, kw_only=True)


@dataclass
class Words(Block):
    """What the model said in one turn. ``reasoning`` is its thinking, where the provider gives it."""

    turn: int
    text: str = ""
    reasoning: str = ""


@dataclass
class Step:
    """One stage the judge reported: its part (build, guard, ...), what it does, when it began, what is known so far."""

    part: str
    text: str
    time: float
    partial: dict[str, Any] = field(default_factory=dict)


@dataclass
class Call(Block):
    """One tool call.

    Attributes:
        raw: Its arguments as text, while they are still being written.
        output: What the model was given; ``full`` is the blob of the unclipped output, if it was clipped.
        steps: What the judge reported while it ran.
        attempt: The attempt it judged, for a check.
        ahead: For how many seconds the judge had worked on that attempt before it was asked.
    """

    call_id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    raw: str = ""
    status: CallStatus = "waiting"
    seconds: float = 0.0
    output: str = ""
    full: str | None = None
    steps: list[Step] = field(default_factory=list)
    attempt: int | None = None
    ahead: float = 0.0


@dataclass
class Steps(Block):
    """Stages of the judge that belong to no tool call: accepting the task, judging a landing (then with its attempt)."""

    steps: list[Step] = field(default_factory=list)
    attempt: int | None = None


@dataclass
class Said(Block):
    """Something told to the agent. ``read`` is false until it has entered the conversation."""

    speaker: Speaker
    text: str
    read: bool = True


@dataclass
class Notice(Block):
    """Something that happened to the session itself."""

    tone: Tone
    title: str
    detail: str = ""
    next_step: str = ""
