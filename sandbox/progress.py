"""How the judge says what it is doing: one stage at a time, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stage:
    """What is being done or waited for: ``part`` is task, build, guard, verify or profile.

    ``partial`` holds what is known so far: of a profile ``placement``, ``of``, ``device_us`` (or ``latency_us``) and
    ``speedup`` (ratios by baseline); while waiting for the device ``waiting_for``, the process that has it.
    """

    part: str
    text: str
    partial: dict[str, Any] = field(default_factory=dict)


LOADED = "loaded"
"""Text of the stage with which a task is there: nothing is being done any more."""

Progress = Callable[[Stage], None]


def silent(stage: Stage) -> None:
    """Listen to nothing."""
