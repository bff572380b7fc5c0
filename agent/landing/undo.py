"""Taking a landing back, file by file, by comparing what is there with what was there before and after it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.merge import merge
from agent.landing.write import land, read, tidy, unstage
from sandbox.errors import LandingRefused

RESTORED = "restored"
CREATED = "created"
REMOVED = "removed"
AS_IT_WAS = "already as it was"
EDITED = "edited since; left as it is"
GONE = "gone"
MERGED = "taken out again; your edits since are kept"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class StepBack:
    """What undoing a landing does to one of its files.

    Attributes:
        path: The file.
        outcome: What becomes of it, in words.
        change: The change that does it; None where nothing is done.
    """

    path: Path
    outcome: str
    change: FileChange | None = None

    @property
    def exact(self) -> bool:
        """Whether the file ends as it was before the landing."""
        return self.outcome in (RESTORED, CREATED, REMOVED, AS_IT_WAS)


def steps_back(changes: Sequence[FileChange]) -> list[StepBack]:
    """Return what undoing a landing, whole or cut off half way, does to each file, in their order; nothing is written.

    An edited file keeps its edits: where these lie apart from what the landing changed, that is taken out of it, and
    where they meet, the file is left as it is. Then the files that the landing created stay too, as it may use them.
    """
    steps = [_step(change) for change in changes]
    using = next((step for step, change in zip(steps, changes, strict=True) if _may_use(step, change, changes)), None)
    if using is None:
        return steps
    fate = "is gone, perhaps to elsewhere," if using.outcome == GONE else "was edited since"
    kept = f"kept, because {using.path.name} {fate} and may use it"
    return [StepBack(step.path, kept) if step.outcome == REMOVED else step for step in steps]


def undo(changes: Sequence[FileChange]) -> list[tuple[Path, str]]:
    """Take back what can be of a landing; see :func:`steps_back`.

    Undoing the inverse of the steps' changes takes the undo back.

    Returns:
        What became of each file, in the order of ``changes``.

    Raises:
        LandingRefused: Something could not be written. What had been restored was put back.
    """
    steps = steps_back(changes)
    unstage(changes)
    todo = [step.change for step in steps if step.change is not None]
    try:
        land(todo)
    except LandingRefused as refused:
        if not isinstance(refused.__cause__, OSError) or refused.__cause__.errno not in _FULL:
            raise
        land([change for change in todo if change.after is None])  # what goes makes room for what comes back
        land([change for change in todo if change.after is not None])
    tidy(change.path for change in changes if not change.path.exists())
    return [(step.path, step.outcome) for step in steps]


def _step(change: FileChange) -> StepBack:
    try:
        current = read(change.path)
    except LandingRefused:
        return StepBack(change.path, EDITED)
    if current == change.before:
        return StepBack(change.path, AS_IT_WAS)
    if current == change.after:
        outcome = REMOVED if change.before is None else CREATED if change.after is None else RESTORED
        return StepBack(change.path, outcome, change.inverse())
    if current is None:
        return StepBack(change.path, GONE)
    merged = None
    if change.before is not None and change.after is not None:
        merged = merge(change.after, current, change.before)
    if merged is None:
        return StepBack(change.path, EDITED)
    return StepBack(change.path, MERGED, FileChange(change.path, current, merged))


def _may_use(step: StepBack, change: FileChange, changes: Sequence[FileChange]) -> bool:
    """Whether a file that was there before and was edited since may use what the landing created."""
    if change.before is None or step.exact:
        return False
    if step.change is None or step.change.after is None:
        return True
    folders = {each.path.parent.name.encode() for each in changes if each.before is None}
    return any(folder in step.change.after for folder in folders)
