"""Taking a whole landing back: its files, its lines of the index, and its commit where the branch still has it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.commit import Place, contains, find_place
from agent.landing.folder import RECORD
from agent.landing.index import INDEX, is_index, lines_of, noted, read_index
from agent.landing.kept import text_sha256
from agent.landing.repository import Repository
from agent.landing.undo import CREATED, EDITED, GONE, MERGED, REMOVED, RESTORED, StepBack, steps_back
from agent.landing.write import read
from sandbox.errors import LandingRefused, UsageError


def take_back(changes: Sequence[FileChange], project: Path, name: str, *, partly: bool = False) -> list[StepBack]:
    """Return the steps that take a landing back; nothing is written.

    Args:
        changes: What the landing wrote.
        project: The project whose index names it.
        name: The name it has there.
        partly: Take back what can be, where files were edited since.

    Raises:
        LandingRefused: Files were edited since, and not ``partly``; or nothing can be taken back.
    """
    steps = steps_back([change for change in changes if not is_index(change.path)])
    edited = [step for step in steps if step.outcome in (EDITED, GONE, MERGED)]
    possible = [step for step in steps if step.change is not None]
    if edited and not (partly and possible):
        if _is_replaced(changes, project, name):
            what = f"A later landing of {name.rpartition(':')[2]} took the place of this one."
            next_step = f"Take that back first: warpsmith landed undo {name}"
            raise LandingRefused(what, where=str(edited[0].path), next_step=next_step)
        raise _refusal(edited, possible, later_in_its_file(project, name))
    if any(step.change is None and not step.exact for step in steps if _is_theirs(step, changes)):
        return steps
    return steps + [_index_step(change) for change in _index_back(changes, project, name)]


def place_of_undo(commit: str, changes: Sequence[FileChange], *, exact: bool) -> tuple[Place | None, list[str]]:
    """Return where a commit goes that takes another back, and what is to be said; no place if it cannot be.

    Args:
        commit: The commit to take back; empty if there was none.
        changes: What takes it back.
        exact: Whether that restores every file as it was.
    """
    if not commit or not changes:
        return None, []
    repository = Repository.of(next(folder for folder in changes[0].path.parents if folder.is_dir()))
    only = "Only the working tree was changed, and no commit made: "
    if repository is None or not contains(repository, "HEAD", commit):
        return None, [f"{only}the branch does not have {commit[:9]} any more."]
    if not exact:
        return None, [f"{only}files were edited since."]
    try:
        place = find_place(changes)
    except LandingRefused as refused:
        return None, [f"{only}{refused.what}"]
    return place, list(place.notes)


def _is_theirs(step: StepBack, changes: Sequence[FileChange]) -> bool:
    return any(change.path == step.path and change.before is not None for change in changes)


def later_in_its_file(project: Path, name: str) -> list[str]:
    """Return the names of landings that came later into the same file, latest first, as far as the index tells."""
    try:
        entries = read_index(project)
    except (UsageError, LandingRefused):
        return []
    own = entries.get(name)
    later = [each for each in entries.values() if own and each.file == own.file and each.landed >= own.landed]
    return [each.name for each in sorted(later, key=lambda each: each.landed, reverse=True) if each.name != name]


def _is_replaced(changes: Sequence[FileChange], project: Path, name: str) -> bool:
    """Whether the index tells of another landing under the name of this one."""
    record = next((change.after for change in changes if change.path.name == RECORD and change.after), None)
    try:
        standing = read_index(project).get(name)
    except (UsageError, LandingRefused):
        return False
    return record is not None and standing is not None and standing.record_sha256 != text_sha256(record)


def _refusal(edited: Sequence[StepBack], possible: Sequence[StepBack], later: Sequence[str]) -> LandingRefused:
    names = ", ".join(step.path.name for step in edited[:3]) + (", ..." if len(edited) > 3 else "")
    gone = next((step.path for step in edited if step.outcome == GONE), None)
    if gone is not None and not possible:
        what = f"{gone.name} is gone, and what landed beside it may be in use wherever it went."
        next_step = f"Bring it back first: git checkout HEAD -- {shlex.quote(str(gone))}"
        return LandingRefused(what, where=str(gone), next_step=next_step)
    if later:
        what = f"{edited[0].path.name} holds what landed in it later as well: {', '.join(later)}."
        next_step = f"Take that back first: warpsmith landed undo {later[0]}"
        return LandingRefused(what, where=str(edited[0].path), next_step=next_step)
    if not possible:
        what = f"Nothing of the landing can be taken back without losing what was edited since: {names}."
        return LandingRefused(what, where=str(edited[0].path), next_step="Take your edit there back first.")
    fate = "; ".join(f"{step.path.name}: {step.outcome}" for step in edited[:3])
    what = f"Files of the landing were edited since{' or are gone' if gone else ''}: {names}."
    files = f"{len(possible)} file{'s' if len(possible) > 1 else ''}"
    next_step = f"Take back what can be, {files}, with --partly ({fate})."
    return LandingRefused(what, where=str(edited[0].path), next_step=next_step)


def _index_back(changes: Sequence[FileChange], project: Path, name: str) -> list[FileChange]:
    """Return what brings the index to where it was before the landing, whatever else landed since."""
    recorded = [change for change in changes if is_index(change.path)]
    index = next((change for change in recorded if change.path.name == INDEX), None)
    try:
        if index is not None and read(index.path) == index.after:
            return [change.inverse() for change in recorded if read(change.path) == change.after]
        return noted(project, name, lines_of(index.before if index is not None else None, name))
    except LandingRefused:  # it is no file any more, and that must not keep the landing in
        return []


def _index_step(change: FileChange) -> StepBack:
    outcome = REMOVED if change.after is None else CREATED if change.before is None else RESTORED
    return StepBack(change.path, outcome, change)
