"""What is done with a landing later: judged again, opened to be tuned again, taken back; by the project's index alone."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent import events as ev
from agent.landing.again import original_of, prepare_again, restored, task_of
from agent.landing.change import FileChange
from agent.landing.commit import WITHOUT_COMMIT, Commit, Place, find_place
from agent.landing.confined import expect_confined, record_of, recorded_hashes
from agent.landing.deed import Journal, carry_out, conclude
from agent.landing.folder import read_record
from agent.landing.history import UNKNOWN, change_of_module
from agent.landing.index import lines_for, noted
from agent.landing.kept import Kept, summary_of, text_sha256
from agent.landing.message import undo_message
from agent.landing.standing import is_as_landed, standing
from agent.landing.taking_back import take_back
from agent.landing.write import read
from agent.session import SESSION_FILE, create_session, open_session, read_state
from agent.settings import Settings
from agent.store import LOCK, SessionBusy, SessionWriter, write_atomically
from agent.stream import Stream
from agent.undo_desk import UndoDesk
from sandbox.errors import EnvironmentFault, LandingRefused, UsageError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.scratch import scratch_folder
from sandbox.progress import Progress
from sandbox.snapshot import write_snapshot
from sandbox.verdict import Verdict


@dataclass(frozen=True)
class TakenBack:
    """What an undo did: to each file, in which commit if one was made, and what is to be said of that."""

    files: list[tuple[str, str]]
    commit: str = ""
    notes: tuple[str, ...] = ()
    session: str = ""


def judge_again(
    project: Path, kept: Kept, settings: Settings, python: Path, device: str, progress: Progress
) -> Verdict:
    """Return a full verdict of a landing as it lies in the project, against its kept original.

    Raises:
        UsageError: Files of it are gone, or what makes its task is.
        TaskError, EnvironmentFault: It cannot be judged here.
    """
    if device.partition(":")[0] != kept.device:
        what = f"{kept.name} landed for {kept.device}, and this would judge it on {device}."
        raise UsageError(what, where=kept.file, next_step=f"Judge it with --device {kept.device}, where there is one.")
    with scratch_folder("warpsmith-landed-") as scratch:
        again = prepare_again(project, kept, python, device, scratch / "project", _elsewhere(kept, settings))
        candidate = write_snapshot(again.files, scratch / "candidate")
        isolation = best_isolation(settings.isolation or None)
        with Judge(again.spec, isolation=isolation, cache=settings.cache, scratch=scratch, progress=progress) as judge:
            return judge.check(candidate, "full", progress=progress, landed=again.form)


def note_verdict(project: Path, kept: Kept, verdict: Verdict, settings: Settings) -> None:
    """Let the index say what a new verdict says of a landing.

    Raises:
        LandingRefused: The index cannot be written.
    """
    now = replace(kept, **summary_of(verdict))
    _carried_out(noted(project, kept.name, lines_for(now)), project, kept, settings)


def slower(verdict: Verdict) -> bool:
    """Whether a landing is slower than its original by a verdict, the whole interval."""
    eager = verdict.over_eager
    return eager is not None and eager.high < 1


def session_to_retune(project: Path, kept: Kept, settings: Settings, python: Path, device: str) -> Path:
    """Make a session on the original of a landing, which lands in its place, and return the session's folder.

    Raises:
        UsageError: The class was edited since it landed, or files of it are gone, or lie where none does.
    """
    expect_confined(project, kept)
    now = standing(project, kept)
    if now.state != "fresh":
        what = f"{kept.name} cannot be tuned again as it is: {'; '.join(now.reasons)}."
        next_step = f"Take it back (warpsmith landed undo {kept.class_name} --partly), then open the module anew."
        raise UsageError(what, where=kept.file, next_step=next_step)
    task = task_of(project, kept, python, device, _elsewhere(kept, settings))
    original_of(project, kept)
    folder = create_session(task, settings, settings.home)
    try:
        spec = restored(task, project, kept, folder / "original").with_changes(lands_at=str(task.path))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    data = json.loads((folder / SESSION_FILE).read_bytes())
    write_atomically(folder / SESSION_FILE, json.dumps({**data, "task": spec.to_json()}, indent=1).encode())
    return folder


def undo_landing(
    project: Path, kept: Kept, settings: Settings, *, partly: bool = False, commit: bool = False
) -> TakenBack:
    """Take a landing back: as its session would, where that is on this machine, else by the folder that landed.

    Args:
        project: The project.
        kept: The landing.
        settings: Their ``home`` holds the sessions.
        partly: Take back what can be, where files were edited since.
        commit: Make one commit of it, also where the landing was none.

    Raises:
        LandingRefused: Files were edited since, or the tree cannot be written.
        UsageError: The session is open in another Warpsmith; or files of the landing are gone, or lie where none does.
    """
    expect_confined(project, kept)
    recorded = _recorded(project, kept, settings)
    try:
        if recorded is not None:
            return _undo_in_session(*recorded, partly=partly, commit=commit)
        changes = _changes_of(project, kept)
        steps = take_back(changes, project, kept.name, partly=partly)
        todo = [step.change for step in steps if step.change is not None]
        place = find_place(todo) if commit else None
        made = _carried_out(todo, project, kept, settings, place)
    except LandingRefused as refused:
        next_step = refused.next_step.replace(WITHOUT_COMMIT, "Or leave --commit out, and commit it yourself.")
        raise LandingRefused(refused.what, where=refused.where, next_step=next_step) from refused
    except SessionBusy as busy:
        next_step = "Take it back there (u), or close it there first."
        raise SessionBusy(busy.what, where=busy.where, next_step=next_step) from busy
    files = [(str(step.path), step.outcome) for step in steps]
    return TakenBack(files, made.new if made else "", place.notes if place else ())


def _session_of(kept: Kept, settings: Settings) -> Path | None:
    """Return the folder of the session that landed it, if it is on this machine."""
    folder = settings.home / "sessions" / kept.session
    there = kept.session and Path(kept.session).name == kept.session and (folder / SESSION_FILE).is_file()
    return folder if there else None


def _elsewhere(kept: Kept, settings: Settings) -> dict[str, Path]:
    """Return where the session that landed it has its capture, which lies with the recording and not in the project."""
    folder = _session_of(kept, settings)
    capture = Path(open_session(folder).task.capture) if folder is not None else Path()
    return {"capture": capture} if capture.is_absolute() and capture.is_dir() else {}


def _recorded(project: Path, kept: Kept, settings: Settings) -> tuple[Path, int] | None:
    """Return the session of a landing and its number there, if it is on this machine and the landing stands."""
    folder = _session_of(kept, settings)
    if folder is None:
        return None
    state = read_state(folder)
    path = str(project / kept.file)
    numbers = [n for n in state.landings_standing if any(each["path"] == path for each in state.landings[n].files)]
    return (folder, numbers[-1]) if numbers else None


def _undo_in_session(folder: Path, landing: int, *, partly: bool, commit: bool) -> TakenBack:
    writer = SessionWriter(folder)
    try:
        state = read_state(folder)
        stream = Stream(writer, os.open(os.devnull, os.O_WRONLY), state)
        desk = UndoDesk(open_session(folder).task, stream)
        desk.recover()
        asyncio.run(desk.undo(landing, partly=partly, commit=commit))
    finally:
        writer.close()
    undone: ev.Undone = state.undone[landing]
    files = [(each["path"], each["outcome"]) for each in undone.files]
    return TakenBack(files, undone.commit, tuple(undone.notes), folder.name)


def _changes_of(project: Path, kept: Kept) -> list[FileChange]:
    """Return what a landing wrote, as far as the project still tells; a file edited since counts as edited."""
    path, record = project / kept.file, record_of(project, kept)
    held = read(record)
    changes = [_new(record, text_sha256(held) == kept.record_sha256)] if held is not None else []
    for name, sha256 in (recorded_hashes(read_record(held)) or {}).items():
        each = path.parent / name
        content = read(each)
        if content is not None and each != path:
            changes.append(_new(each, is_as_landed(content, sha256)))
    if kept.kind == "module":
        changes.insert(0, change_of_module(project, kept))
    return changes


def _new(path: Path, as_landed: bool) -> FileChange:
    return FileChange(path, None, read(path) if as_landed else UNKNOWN)


def settle_left(project: Path, settings: Settings) -> None:
    """Complete or take back what an earlier ``warpsmith landed`` left half done in a project; one that still runs is left alone.

    Raises:
        LandingRefused: It cannot be yet.
    """
    if not _folder(project, settings).is_dir():
        return
    with _journal(project, settings) as journal:
        left = journal.pending() if journal is not None else None
        if journal is not None and left is not None:
            conclude(left)
            journal.end()


def _carried_out(
    changes: list[FileChange], project: Path, kept: Kept, settings: Settings, place: Place | None = None
) -> Commit | None:
    with _journal(project, settings) as journal:
        if journal is None:
            what = "Another Warpsmith is at work on the landings of this project."
            raise UsageError(what, where=str(project), next_step="Wait for it, then do it again.")
        made = carry_out(changes, journal, {"name": kept.name}, place, undo_message(kept.name))
        journal.end()
        return made


@contextlib.contextmanager
def _journal(project: Path, settings: Settings) -> Iterator[Journal | None]:
    """Hold the journal of what is done in a project without a session; None while another process holds it."""
    folder = _folder(project, settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        what = f"What is done in the project cannot be noted: {error.strerror}."
        raise EnvironmentFault(what, where=str(folder), next_step="Choose another place with --home.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        journal: Journal | None = Journal(folder)
    except BlockingIOError:
        journal = None
    try:
        yield journal
    finally:
        os.close(lock)


def _folder(project: Path, settings: Settings) -> Path:
    return settings.home / "landed" / hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
