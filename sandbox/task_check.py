"""What was found out about a task before it was accepted, as every verdict carries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.verdict import TaskCheck

PASSED = "equal inputs give equal outputs, other inputs give others, and trivial answers (zeros, ones, an input, a mean) fail"
"""What holds of every task that is accepted."""


def task_check(accepted: Mapping[str, Any]) -> TaskCheck:
    """Return the record of what the bench told when it accepted the task."""
    return TaskCheck(
        precision=accepted["precision"],
        depends_on=tuple(accepted["depends_on"]),
        ignores=tuple(accepted["ignores"]),
        notes=tuple(accepted["notes"]),
    )
