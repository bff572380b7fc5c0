"""A session without a screen: the same engine, its events on stdout as JSON lines or told on stderr, one result at the end."""

from __future__ import annotations

import contextlib
import json as json_module
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from types import FrameType
from typing import Literal

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.outcome import best_line, compared_line, landed_lines, next_line, spent_lines, unproven
from agent.session import create_session, engine_command, read_state
from agent.settings import Settings
from agent.state import SessionState
from agent.verdict_text import original_text
from sandbox.errors import ExitCode
from sandbox.task import TaskSpec

LandPolicy = Literal["never", "full-pass"]

FAULTS = {
    EndReason.TASK_UNUSABLE: ExitCode.USAGE,
    EndReason.MODEL_ERROR: ExitCode.ENVIRONMENT,
    EndReason.ENVIRONMENT: ExitCode.ENVIRONMENT,
    EndReason.INTERNAL_ERROR: ExitCode.INTERNAL,
    EndReason.INTERRUPTED: ExitCode.INTERRUPTED,
}
ONE_PRESS_SECONDS = 0.5
"""Signals within so long are one press: what runs this command, such as ``timeout``, may pass on what the terminal sent."""
NOBODY_TO_ASK = "Nobody is here to be asked: this session runs without a screen. Do without it."


def run(
    spec: TaskSpec, settings: Settings, *, json: bool = False, land: LandPolicy = "never", commit: bool = False
) -> ExitCode:
    """Make a session, let the agent run to its end, and return whether there is a correct candidate.

    Args:
        spec: The task.
        settings: The settings; its ``home`` gets the session.
        json: Print every event on stdout instead of a summary.
        land: ``full-pass`` writes the best attempt into the project if its full verdict earned reward 2 or 3.
        commit: What lands is also one commit.

    Returns:
        0 there is a correct candidate, and it has landed if that was wanted, 1 there is none or it has not, 2 the task
        cannot be used, 3 the environment or the model is at fault, 4 a fault of ours, 130 interrupted.
    """
    return resume(create_session(spec, settings, settings.home), json=json, land=land, commit=commit)


def resume(folder: Path, *, json: bool = False, land: LandPolicy = "never", commit: bool = False) -> ExitCode:
    """Let the agent go on in an existing session; see ``run``."""
    watcher = _Watcher(json=json, state=read_state(folder))
    with _Engine(folder) as engine:
        engine.send(cmd.Run())
        for line, event in engine.events():
            watcher.see(line, event)
            if isinstance(event, ev.PermissionAsked):
                engine.send(cmd.AnswerPermission(call_id=event.call_id, scope="reject", reason=NOBODY_TO_ASK))
            if watcher.ended is None:
                continue
            if event is watcher.ended and land == "full-pass" and not _against_landing(watcher):
                engine.send(cmd.Land(attempt=watcher.best_attempt, commit=commit, faster=True))
            elif event is watcher.ended or isinstance(event, ev.Landed | ev.LandingRefusedEvent):
                engine.send(cmd.Close())
        status = engine.wait()
    if watcher.ended is None:
        if status < 0:
            sys.stderr.write(lost(watcher.state, status, folder))
        elif engine.interrupted:
            sys.stderr.write(f"{next_line(watcher.state, folder)}\n")
        return _status(status, engine.interrupted)
    unlanded = "" if land == "never" or watcher.landed else watcher.refused or _against_landing(watcher)
    if not json:
        sys.stdout.write(summary(watcher.state, watcher.ended, folder, unlanded=unlanded))
    code = FAULTS.get(watcher.ended.reason)
    return code if code is not None else ExitCode.OK if watcher.state.best and not unlanded else ExitCode.FAILED


def land(folder: Path, *, json: bool = False, commit: bool = False, untimed: bool = False) -> ExitCode:
    """Land the best attempt of a session, as ``run`` does with ``full-pass``; no model is asked.

    With ``untimed`` it need not have been seen to be faster than eager, where the machine was too busy to tell.

    Returns:
        0 it has landed, 1 it has not, 130 interrupted, else what the engine ended with.
    """
    watcher = _Watcher(json=json, state=read_state(folder))
    if against := _against_landing(watcher, untimed=untimed):
        sys.stderr.write(f"not landed: {against}\n{next_line(watcher.state, folder)}\n")
        return ExitCode.FAILED
    done: ev.Event | None = None
    ready = False
    with _Engine(folder) as engine:
        for line, event in engine.events():
            watcher.see(line, event)
            if isinstance(event, ev.EngineReady):
                ready = True
                engine.send(cmd.Land(attempt=watcher.best_attempt, commit=commit, faster=True, untimed=untimed))
            elif ready and done is None and isinstance(event, ev.Landed | ev.LandingRefusedEvent | ev.ErrorEvent):
                done = event
                engine.send(cmd.Close())
        status = engine.wait()
    if done is None or engine.interrupted:
        return _status(status, engine.interrupted)
    if not isinstance(done, ev.Landed):
        return ExitCode.FAILED
    sys.stderr.write(f"{next_line(watcher.state, folder)}\n")
    return ExitCode.OK


def lost(state: SessionState, status: int, folder: Path) -> str:
    """Return what to tell of an engine that was killed: nothing that was stored is gone."""
    killer = signal.Signals(-status).name
    kept = f"{len(state.judged)} attempts and everything before are stored"
    return f"error: The engine was killed by {killer}; {kept}.\n{next_line(state, folder)}\n"


def summary(state: SessionState, ended: ev.RunEnded, folder: Path, *, unlanded: str = "") -> str:
    """Return the result of a run in a few lines; ``unlanded`` says why nothing landed that was to."""
    lines = [f"ended: {ended.reason}{f' ({ended.detail})' if ended.detail else ''}"]
    lines += [best_line(state), *([ended.workspace] if ended.workspace else []), *spent_lines(state, ended.minutes)]
    lines += [*filter(None, [compared_line(state)]), *landed_lines(state)]
    if unlanded:
        lines.append(f"not landed: {unlanded}")
    lines += [f"session: {folder}", next_line(state, folder)]
    return "\n".join(lines) + "\n"


@dataclass
class _Watcher:
    """Follows the events: prints or tells them, and keeps the state they amount to."""

    json: bool
    state: SessionState = field(default_factory=SessionState)
    started: bool = False
    ended: ev.RunEnded | None = None
    landed: bool = False
    refused: str = ""

    @property
    def best_attempt(self) -> int:
        return self.state.best.attempt if self.state.best else 0

    def see(self, line: str, event: ev.Event | None) -> None:
        if self.json:
            sys.stdout.write(line)
            sys.stdout.flush()
        if event is None:
            return
        if not isinstance(event, ev.Live):
            self.state.apply(event)
        if isinstance(event, ev.RunStarted):
            self.started = True
        if isinstance(event, ev.RunEnded) and self.started:  # an engine also ends the run of one that was killed
            self.ended = event
        self.landed |= self.ended is not None and isinstance(event, ev.Landed)
        if self.ended is not None and isinstance(event, ev.LandingRefusedEvent):
            self.refused = narration(event)
        if not self.json and (text := narration(event)):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def narration(event: ev.Event) -> str:
    """Return what to tell of an event on a terminal; empty for those that say nothing new."""
    match event:
        case ev.ModelTurn(turn=turn, message=message) if message["content"]:
            return f"[{turn}] {message['content'].strip()}"
        case ev.ModelRetry(error=error, wait_seconds=seconds):
            return f"{error} Asking again in {seconds:.0f} s."
        case ev.UserMessage(origin="contrast", attempts=pair):
            return f"  asked to compare attempts {' and '.join(map(str, pair))}"
        case ev.ToolStarted(name=name, arguments=arguments):
            about = next((str(value).strip().splitlines()[0] for value in arguments.values() if str(value).strip()), "")
            return f"  {name} {about[:100]}".rstrip()
        case ev.PermissionAsked(tool=tool, what=what):
            command = what.strip().splitlines()[0] if what.strip() else ""
            advice = "allow it with a rule, or choose --permission-mode auto"
            return f"  {tool} was denied, since nobody is here to be asked ({advice}): {command[:100]}"
        case ev.StageEvent(part=part, text=text):
            return f"    {part}: {text}"
        case ev.OriginalProfiled(profile=profile):
            return indent(original_text(profile), "    original: ")
        case ev.Attempt(attempt=number, verdict=verdict):
            remarkable = (verdict.get("profile") or {}).get("remarkable", "")
            told = f"  attempt {number}: reward {verdict['reward']}: {verdict['reason']}"
            return f"{told}\n  LOOK AT ATTEMPT {number}: {remarkable}" if remarkable else told
        case ev.Landed(files=files, commit=commit, notes=notes):
            landed = f"landed {', '.join(str(entry['path']) for entry in files)}"
            return " ".join([f"{landed}{f', as commit {commit[:9]}' if commit else ''}", *notes])
        case (
            ev.ErrorEvent(what=what, where=where, next_step=step)
            | ev.LandingRefusedEvent(what=what, where=where, next_step=step)
        ):
            return " ".join(filter(None, (what, f"({where})" if where else "", step)))
        case _:
            return ""


class _Engine:
    """The engine as a process of its own. Ctrl-C interrupts the run; a second press ends the engine at once."""

    def __init__(self, folder: Path) -> None:
        self._pressed = 0.0
        self._process = subprocess.Popen(
            engine_command(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._before = (
            signal.signal(signal.SIGINT, self._on_interrupt),
            signal.signal(signal.SIGTERM, self._on_interrupt),
        )

    @property
    def interrupted(self) -> bool:
        return self._pressed > 0

    def __enter__(self) -> _Engine:
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before[0])
        signal.signal(signal.SIGTERM, self._before[1])
        self.wait()

    def send(self, command: cmd.Command) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # an engine that ended says why with its status
            self._process.stdin.write(json_module.dumps(cmd.to_json(command)).encode() + b"\n")
            self._process.stdin.flush()

    def events(self) -> Iterator[tuple[str, ev.Event | None]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.decode(), ev.from_json(json_module.loads(line))

    def wait(self) -> int:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        return self._process.wait()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        moment = time.monotonic()
        if not self.interrupted:
            self._pressed = moment
        elif moment - self._pressed > ONE_PRESS_SECONDS:
            self._process.kill()
        self.send(cmd.Interrupt())
        self.send(cmd.Close())


def _against_landing(watcher: _Watcher, *, untimed: bool = False) -> str:
    """Return what speaks against landing the best attempt: it has to be correct and faster than eager by a full verdict.

    One that could not be timed is enough where what is ``untimed`` may land.
    """
    best, ended = watcher.state.best, watcher.ended
    if best is None or (ended is not None and ended.reason in FAULTS):
        return "there is no attempt to land"
    if untimed and best.verdict.correct and best.verdict.reward is None:
        return ""
    return unproven(best)


def _status(status: int, interrupted: bool) -> ExitCode:
    """Return the exit code where the engine ended without ending the run."""
    if interrupted or status == 0:
        return ExitCode.INTERRUPTED
    return ExitCode(status) if status in set(ExitCode) else ExitCode.INTERNAL
