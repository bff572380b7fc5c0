"""What time it is, and how times, ages and amounts read on the screen."""

from __future__ import annotations

import time
from datetime import datetime


def now() -> float:
    """Return the Unix time."""
    return time.time()


def when(moment: float, today: float) -> str:
    """Return a moment as a reader thinks of it: the time today, with the date before that."""
    then, reference = datetime.fromtimestamp(moment), datetime.fromtimestamp(today)
    clock = then.strftime("%H:%M:%S")
    return f"today {clock}" if then.date() == reference.date() else f"{then:%d %b %Y} {clock}"


def age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def duration(seconds: float) -> str:
    """Return a duration: tenths of a second under ten seconds, then whole ones, then minutes and hours."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 60:
        return f"{int(seconds)} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"


def amount(count: float) -> str:
    """Return a count in thousands or millions where it is large."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(int(count))
