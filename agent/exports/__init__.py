"""Sessions as other tools read them: one file a format, all from the stored events alone.

Every format is a function that takes trajectories and yields rows, one JSON object each; what it leaves out it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent.exports import atif, messages, preferences, verl
from agent.exports.trajectory import Note, Trajectory

Rows = Callable[[Iterable[Trajectory], Note], Iterator[dict[str, Any]]]

FORMATS: dict[str, Rows] = {
    "atif": atif.rows,
    "messages": messages.rows,
    "preferences": preferences.rows,
    "verl": verl.token_rows,
    "verl-tasks": verl.task_rows,
}
"""By the name that ``warpsmith sessions export --format`` takes."""
