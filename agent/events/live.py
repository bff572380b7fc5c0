"""What is shown and never stored."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from agent.events.base import Live, named


@named("delta")
class Delta(Live):
    """A piece of the answer as it streams. ``call`` numbers the tool call it belongs to, or is null for text."""

    turn: int
    kind: Literal["text", "reasoning", "tool"]
    text: str
    call: int | None = None
    name: str = ""


JUDGED = "judged"


@named("stage_ahead")
class StageAhead(Live):
    """What the judge does with the workspace while the model thinks; see ``StageEvent``. ``JudgedAhead`` is stored of it.

    With the part ``JUDGED`` it is done, and ``text`` says in a word or two what came of it.
    """

    part: str
    text: str
    partial: dict[str, Any] = field(default_factory=dict)


@named("engine_ready")
class EngineReady(Live):
    """The engine has read the session and takes commands. ``running`` tells whether the loop runs already."""

    session: str
    folder: str
