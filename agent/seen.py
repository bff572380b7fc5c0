"""Which files the model has seen in a session, told by its events: a new engine knows it as the old one did."""

from __future__ import annotations

from collections.abc import Iterable

from agent import events as ev
from agent.store import StoredEvent

_SHOWING = ("Read", "Write", "Edit", "MultiEdit")


def files_seen(events: Iterable[StoredEvent]) -> dict[str, float]:
    """Return when the model last saw each file: paths as it named them, and Unix times."""
    seen: dict[str, float] = {}
    begun: dict[str, str] = {}
    for stored in events:
        match stored.event:
            case ev.ToolStarted(call_id=call_id, name=name, arguments=arguments) if name in _SHOWING:
                begun[call_id] = str(arguments.get("file_path", ""))
            case ev.ToolFinished(call_id=call_id, name=name, ok=ok) if name in _SHOWING:
                path = begun.pop(call_id, "")
                if ok and path:
                    seen[path] = stored.time
    return seen
