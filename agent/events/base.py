"""What an event is, the name it has on disk, and how it becomes a line there and is read again."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform

FORMAT = "warpsmith.session/1"


class Event:
    """Base of all events. ``type`` is the name it has on disk."""

    type: ClassVar[str]


class Live(Event):
    """Base of the events that are shown and never stored."""


_TYPES: dict[str, type[Event]] = {}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def named(name: str) -> Any:
    """Make a class a frozen event of that name."""

    def register(cls: type) -> Any:
        record: Any = dataclass(frozen=True, kw_only=True)(cls)
        record.type = name
        _TYPES[name] = record
        return record

    return register


def to_json(event: Event, n: int | None = None, time: float | None = None) -> dict[str, Any]:
    """Return the event as one JSON object, with its number and Unix time where it has them."""
    head: dict[str, Any] = {} if n is None else {"n": n}
    if time is not None:
        head["time"] = time
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}  # type: ignore[arg-type]
    return {**head, "type": event.type, **fields}


def from_json(data: dict[str, Any]) -> Event | None:
    """Rebuild an event, ignoring keys it does not know; null for a type this version does not know."""
    record = _TYPES.get(data["type"])
    if record is None:
        return None
    names = record.__dataclass_fields__  # type: ignore[attr-defined]
    return record(**{key: value for key, value in data.items() if key in names})
