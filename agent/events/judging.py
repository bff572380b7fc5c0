"""What the judge does and finds."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from agent.events.base import Event, named


@named("stage")
class StageEvent(Event):
    """What the judge is doing or waiting for right now.

    ``partial`` holds what is known so far: of a profile ``placement``, ``of``, ``device_us`` (or ``latency_us``) and
    ``speedup`` (ratios by baseline); while waiting for the device ``waiting_for``, the process that has it.
    """

    part: str
    text: str
    partial: dict[str, Any] = field(default_factory=dict)


@named("original_profiled")
class OriginalProfiled(Event):
    """What the judge measured of the reference (``OriginalProfile.to_json()``)."""

    profile: dict[str, Any]


@named("attempt")
class Attempt(Event):
    """A state of the workspace that was judged. ``files`` maps its paths to blob hashes; attempts count from 1.

    ``taken_from`` names the attempt of the session that had the same code judged, where this one's verdict is that one's
    (``{"session", "attempt"}``); null where it was measured for this one.
    """

    attempt: int
    files: dict[str, str]
    verdict: dict[str, Any]
    call_id: str | None = None
    taken_from: dict[str, Any] | None = None


@named("judged_ahead")
class JudgedAhead(Event):
    """A quick verdict was begun while the model thought, and a Check took it, or nobody did.

    Attributes:
        seconds: How long the judge had worked on it when the Check asked, which waited so much less; or in vain.
        taken: Whether it became the attempt that follows.
    """

    seconds: float
    taken: bool
