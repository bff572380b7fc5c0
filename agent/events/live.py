"""What is shown and never stored."""

from __future__ import annotations

from typing import Literal

from agent.events.base import Live, named


@named("delta")
class Delta(Live):
    """A piece of the answer as it streams. ``call`` numbers the tool call it belongs to, or is null for text."""

    turn: int
    kind: Literal["text", "reasoning", "tool"]
    text: str
    call: int | None = None
    name: str = ""


@named("engine_ready")
class EngineReady(Live):
    """The engine has read the session and takes commands. ``running`` tells whether the loop runs already."""

    session: str
    folder: str
