"""Processes that a candidate leaves running: whatever they do, they do it beside what is timed, and to whoever runs there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from sandbox.verdict import Finding

_ENDED = frozenset({"Z", "X"})


def left_running(now: Iterable[int], before: Iterable[int]) -> list[Finding]:
    """Return a finding for processes that a worker did not have before its candidate was loaded, and has now.

    Compilers that the candidate waited for have ended by then.
    """
    names = [name for pid in sorted(set(now) - set(before)) if (name := _running(pid))]
    if not names:
        return []
    return [
        Finding("process", "reject", f"leaves processes of its own running beside its calls: {', '.join(names[:5])}")
    ]


def _running(pid: int) -> str:
    """Return the name of a process, or an empty text if it has ended."""
    with contextlib.suppress(OSError, IndexError):
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        return "" if rest.split()[0] in _ENDED else head.partition("(")[2]
    return ""
