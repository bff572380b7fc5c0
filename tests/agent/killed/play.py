"""One session from its beginning to its end, killed at the given moments and started again each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from agent import commands as cmd
from agent import events as ev
from agent.session import create_session
from agent.settings import Settings
from agent.store import EVENTS, read_events
from tests.agent.killed.blade import Blade, Moment
from tests.agent.killed.story import Developer
from tests.agent.support import make_spec
from tests.servers.engine_process import EngineProcess

NEVER = Moment("never")
_PATIENCE_SECONDS = 240
"""On a busy machine: an interpreter that still loads its libraries notices only then that its parent is gone."""


@dataclass
class Played:
    """A session that came to its end.

    Attributes:
        folder: The session's.
        project: The developer's.
        before: The project's files before it.
        struck: The moments at which the engine was killed, with what it had told last.
        problems: What was wrong by the way: a process left behind, a file half landed, a refusal.
        lines: Numbered lines that the engines told, in order.
    """

    folder: Path
    project: Path
    before: dict[str, bytes]
    struck: list[tuple[Moment, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lines: list[dict[str, object]] = field(default_factory=list)


def play(place: Path, settings: Settings, moments: Sequence[Moment]) -> Played:
    """Play the whole session below ``place``; moments that never come are left out."""
    spec = make_spec(place)
    played = Played(create_session(spec, settings, settings.home), spec.root, files_of(spec.root))
    developer = Developer(played.folder)
    waiting = [*moments, NEVER]
    while True:
        moment = waiting[0]
        if _one_engine(played, developer, moment):
            return played
        waiting.pop(0)


def files_of(project: Path) -> dict[str, bytes]:
    """Return the project's files by their relative paths, without what Python caches."""
    found = (path for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(project)): path.read_bytes() for path in found}


def _one_engine(played: Played, developer: Developer, moment: Moment) -> bool:
    """Run an engine until it is killed or closes; return whether it closed."""
    developer.new_engine()
    with EngineProcess(played.folder) as engine:
        blade = Blade(engine, played.folder, moment)
        try:
            last = _follow(played, engine, developer, blade)
        except AssertionError as silence:  # the pipe ended, or nothing came for long
            blade.put_away()
            last = next((str(line["type"]) for line in reversed(engine.lines) if "n" in line), "nothing")
            if not blade.struck:
                played.problems.append(f"the engine fell silent after {last}: {silence}")
                engine.process.kill()
                return True
        finally:
            blade.put_away()
        engine.process.wait(60)
    played.lines += [line for line in engine.lines if "n" in line]
    if not blade.struck:
        return True
    played.struck.append((moment, str(last)))
    played.problems += [f"left behind: {each}" for each in psutil.wait_procs(blade.family, _PATIENCE_SECONDS)[1]]
    if moment.kind == "torn":
        _tear(played.folder)
    return False


def _follow(played: Played, engine: EngineProcess, developer: Developer, blade: Blade) -> str:
    """Read what the engine tells and send what is due, until it has been told to close and has ended."""
    ready = False
    while True:
        event = engine.wait_for(ev.Event, seconds=_PATIENCE_SECONDS)
        blade.saw(event)
        if isinstance(event, ev.EngineReady):
            ready = True
            _look_at_the_project(played)
        elif not ready or isinstance(event, ev.Live):
            continue
        if isinstance(event, ev.ErrorEvent | ev.LandingRefusedEvent):
            played.problems.append(f"{event.type}: {event.what} {event.where}")
        for command in developer.due():
            if not blade.struck:
                engine.send(command)
            if isinstance(command, cmd.Land):
                blade.landing()
            if isinstance(command, cmd.Close):
                blade.put_away()
                engine.finish()
                return "close"


def _look_at_the_project(played: Played) -> None:
    """As long as no landing is stored the developer's files are untouched, whatever was cut off."""
    landed = any(isinstance(item.event, ev.Landed) for item in read_events(played.folder))
    if not landed and files_of(played.project) != played.before:
        played.problems.append("the project is changed, and no landing is stored")


def _tear(folder: Path) -> None:
    """Begin the next line, as a write does that a crash cuts off."""
    *_, last = read_events(folder)
    torn = f'{{"n": {last.n + 1}, "time": {last.time}, "type": "tool_finished", "message": {{"role": "tool", "con'
    with (folder / EVENTS).open("ab") as file:
        file.write(torn.encode())
