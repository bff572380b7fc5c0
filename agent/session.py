"""A session's folder: making one, finding one, listing and pruning them.

``HOME/sessions/NAME`` holds ``session.json`` (what the session is), ``events.jsonl`` and ``blobs/`` (what happened, see
``agent.store``) and ``workspace/`` (where the agent works). NAME sorts by time: ``20261129-154102-3f9a1c2e-blocks-norm``.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from agent.events import FORMAT
from agent.settings import Settings
from agent.state import Judged, SessionState
from agent.store import EVENTS, LOCK, another_place, read_events, sweep, write_atomically
from sandbox.errors import EnvironmentFault, UsageError
from sandbox.reward import FAILED
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict

SESSION_FILE = "session.json"


@dataclass(frozen=True)
class Session:
    """What ``session.json`` says. ``created`` is Unix time; ``device`` the kind, ``cpu`` or ``cuda``.

    ``search`` is there where the session is one agent's of a search: its ``folder``, and the ``base``
    (``{"session", "attempt"}``, or null) that its workspace begins as, and what the agent is ``told`` after the task.
    ``verdicts`` is the folder of those that it has in common with the other sessions of its step, where it is one of a cycle.
    """

    folder: Path
    id: str
    created: float
    title: str
    task: TaskSpec
    settings: Settings
    versions: dict[str, str]
    device: str
    format: str = FORMAT
    search: dict[str, Any] | None = None
    verdicts: Path | None = None

    @property
    def workspace(self) -> Path:
        """Where the agent works."""
        return self.folder / "workspace"


@dataclass(frozen=True)
class SessionSummary:
    """A line of the list of sessions.

    Attributes:
        attempts: How many states were judged.
        best_speedup: Ratio to eager of the best attempt (``SessionState.best``), or null.
        best_reward: Its reward; without a correct attempt -1, or null when nothing could be judged.
        outcome: Why the last run ended (``EndReason``), ``stopped`` when it was cut off, ``new`` when none began.
        landed: Landings that stand.
        search: Id of the search that it belongs to, or null.
        cost_usd: What the model's answers cost, where the provider says so.
    """

    folder: Path
    id: str
    title: str
    created: float
    changed: float
    model: str
    device: str
    attempts: int
    best_speedup: float | None
    best_reward: int | None
    outcome: str
    landed: int
    cost_usd: float | None
    search: str | None = None


def create_session(
    spec: TaskSpec,
    settings: Settings,
    home: Path,
    search: dict[str, Any] | None = None,
    verdicts: Path | None = None,
) -> Path:
    """Make a session's folder with its ``session.json`` and return it; the engine does the rest.

    ``search`` and ``verdicts`` are what ``Session`` holds.

    Raises:
        EnvironmentFault: ``home`` cannot be written.
    """
    created, identifier = time.time(), secrets.token_hex(4)
    stamp = datetime.fromtimestamp(created, UTC).strftime("%Y%m%d-%H%M%S")
    folder = home / "sessions" / f"{stamp}-{identifier}-{_slug(spec.id)}"
    data = {
        "format": FORMAT,
        "id": identifier,
        "created": created,
        "title": spec.id,
        "task": spec.to_json(),
        "settings": settings.to_json(),
        "versions": versions(),
        "device": device_kind(spec.device),
        **({"search": search} if search else {}),
        **({"verdicts": str(verdicts)} if verdicts else {}),
    }
    try:
        folder.mkdir(parents=True, mode=0o700)
        sweep(home)
        write_atomically(folder / SESSION_FILE, json.dumps(data, indent=1).encode())
    except OSError as error:
        raise EnvironmentFault(
            f"No session can be made: {error.strerror}.",
            where=str(folder),
            next_step=another_place(error),
        ) from error
    return folder


def open_session(folder: Path) -> Session:
    """Read a session's ``session.json``; a newer format is read as far as it is known.

    Raises:
        UsageError: The folder holds no session, or not one that can be read.
    """
    path = folder / SESSION_FILE
    try:
        data = json.loads(path.read_text())
        return Session(
            folder=folder,
            id=data["id"],
            created=data["created"],
            title=data["title"],
            task=TaskSpec.from_json(data["task"]),
            settings=Settings.from_json(data["settings"]),
            versions=data["versions"],
            device=data["device"],
            format=data["format"],
            search=data.get("search"),
            verdicts=Path(data["verdicts"]) if "verdicts" in data else None,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"This is not a session that can be read: {error}.", where=str(path)) from error


def session_folders(home: Path) -> list[Path]:
    """Return the folders of all sessions, newest first."""
    return sorted((p.parent for p in (home / "sessions").glob(f"*/{SESSION_FILE}")), reverse=True)


def find_session(home: Path, name: str) -> Path:
    """Return the folder of a session: ``last`` (used), a path, or the beginning of its id or of its folder's name.

    Raises:
        UsageError: There is none, or more than one.
    """
    if "/" in name and (Path(name) / SESSION_FILE).is_file():
        return Path(name).resolve()
    folders = session_folders(home)
    if name == "last" and folders:
        return max(folders, key=lambda folder: (_changed(folder), open_session(folder).created))
    found = [f for f in folders if f.name.startswith(name) or _id(f).startswith(name)]
    if len(found) == 1:
        return found[0]
    where = str(home / "sessions")
    if found:
        several = ", ".join(_id(f) for f in found[:5])
        raise UsageError(
            f"'{name}' fits {len(found)} sessions: {several}.", where=where, next_step="Give more of the id."
        )
    raise UsageError(f"There is no session '{name}'.", where=where, next_step="List them with: warpsmith sessions")


def list_sessions(home: Path) -> list[SessionSummary]:
    """Return a summary of every readable session, newest first."""
    summaries = []
    for folder in session_folders(home):
        try:
            summaries.append(summarise(folder))
        except UsageError:
            continue
    return summaries


def summarise(folder: Path) -> SessionSummary:
    """Return a session's summary, parsing only the lines that matter for it.

    Raises:
        UsageError: The folder holds no session.
    """
    session = open_session(folder)
    state, cost = SessionState(), None
    outcome, landings = "new", set()
    for kind, data in _lines_of(
        folder / EVENTS, ("attempt", "model_turn", "run_started", "run_ended", "landed", "undone")
    ):
        if kind == "attempt":
            state.judged.append(Judged(data["attempt"], data["files"], Verdict.from_json(data["verdict"])))
        elif kind == "model_turn" and data.get("cost_usd") is not None:
            cost = (cost or 0.0) + data["cost_usd"]
        elif kind == "run_started":
            outcome = "running" if is_open(folder) else "stopped"
        elif kind == "run_ended":
            outcome = data["reason"]
        elif kind == "landed":
            landings.add(data["landing"])
        elif kind == "undone":
            landings.discard(data["landing"])
    reward, speedup = _best(state)
    return SessionSummary(
        folder=folder,
        id=session.id,
        title=session.title,
        created=session.created,
        changed=_changed(session.folder),
        model=session.settings.model,
        device=session.device,
        attempts=len(state.judged),
        best_speedup=speedup,
        best_reward=reward,
        outcome=outcome,
        landed=len(landings),
        cost_usd=cost,
        search=Path(session.search["folder"]).name.rpartition("-")[2] if session.search else None,
    )


def is_open(folder: Path) -> bool:
    """Tell whether an engine holds the session right now."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def prune(home: Path, *, older_than_days: float, landed_too: bool = False) -> list[SessionSummary]:
    """Delete old sessions and return what they were.

    Sessions that are open are left, and so are those with a landing that stands, because undoing it needs them.
    """
    limit = time.time() - older_than_days * 86_400
    pruned = []
    for summary in list_sessions(home):
        if summary.changed < limit and not is_open(summary.folder) and (landed_too or not summary.landed):
            shutil.rmtree(summary.folder)
            pruned.append(summary)
    return pruned


def change_settings(folder: Path, changes: Mapping[str, Any]) -> None:
    """Let a session that is resumed go on with other settings, such as another model or other limits.

    Raises:
        UsageError: The folder holds no session, or a value cannot be that setting's.
    """
    settings = open_session(folder).settings.to_json()
    path = folder / SESSION_FILE
    data = json.loads(path.read_text())
    data["settings"] = Settings.from_json({**settings, **changes}).to_json()
    write_atomically(path, json.dumps(data, indent=1).encode())


def engine_command(folder: Path) -> list[str]:
    """Return the command that starts the engine on a session, immune to packages of the working directory."""
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "agent.engine", str(folder)]


def device_kind(device: str) -> str:
    """Return ``cpu`` or ``cuda``: recordings belong to one of them."""
    return device.partition(":")[0]


def versions() -> dict[str, str]:
    """Return the versions a trajectory depends on, from the installed packages' metadata."""
    found = {"python": platform.python_version()}
    for package in ("warpsmith", "litellm"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def _changed(folder: Path) -> float:
    """When something last happened in a session, in Unix time."""
    events = folder / EVENTS
    return (events if events.exists() else folder / SESSION_FILE).stat().st_mtime


def _id(folder: Path) -> str:
    parts = folder.name.split("-")
    return parts[2] if len(parts) > 2 else folder.name


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]


def _lines_of(path: Path, kinds: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield events of these kinds as plain data. The type stands near the start of a line, so most are never parsed."""
    if not path.exists():
        return
    markers = {kind: f'"type": "{kind}"'.encode() for kind in kinds}
    with path.open("rb") as file:
        for line in file:
            kind = next((kind for kind, marker in markers.items() if marker in line[:100]), None)
            if kind is None:
                continue
            try:
                yield kind, json.loads(line)
            except ValueError:
                continue


def read_state(folder: Path) -> SessionState:
    """Return what a session's stored events amount to.

    Raises:
        EnvironmentFault: They cannot be read.
    """
    state = SessionState()
    for stored in read_events(folder):
        state.apply(stored.event)
    return state


def _best(state: SessionState) -> tuple[int | None, float | None]:
    """Return the best attempt's reward and ratio to eager."""
    if state.best is None:
        judged = any(attempt.verdict.reward is not None for attempt in state.judged)
        return (FAILED if judged else None), None
    verdict = state.best.verdict
    eager = verdict.over_eager
    return verdict.reward, eager.ratio if eager else None
