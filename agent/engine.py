"""The engine: the process that owns a session. Commands come in on stdin, events go out on stdout, one JSON object a line.

    python -m agent.engine FOLDER

It begins the session, or goes on with it wherever an earlier engine stopped or was killed. It ends when told to, when
stdin ends (whoever started it is gone), or on SIGTERM, SIGINT or SIGHUP; everything is on disk at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from agent import commands as cmd
from agent import events as ev
from agent.commands import Command
from agent.events import EndReason
from agent.landing_desk import LandingDesk
from agent.loop import Ended
from agent.running import SHELL_LOST, Running
from agent.search.base import base_files
from agent.session import Session, open_session, read_state
from agent.state import CUT_OFF
from agent.store import SessionWriter, encode
from agent.stream import Stream
from sandbox.errors import EnvironmentFault, ExitCode, InternalError, LandingRefused, WarpsmithError, machine_fault
from sandbox.workspace import Workspace


class Engine:
    """Carries out commands on one session.

    Args:
        session: What the session is.
        stream: Its events, with the state they amount to so far.
    """

    def __init__(self, session: Session, stream: Stream) -> None:
        self._session = session
        self._stream = stream
        self._state = stream.state
        self._commands: asyncio.Queue[Command | str] = asyncio.Queue()
        self._chores: set[asyncio.Task[None]] = set()
        self._one_chore = asyncio.Lock()

    def send(self, command: Command | str) -> None:
        """Give the engine a command; text is a line that was none."""
        self._commands.put_nowait(command)

    async def serve(self) -> None:
        """Begin or resume the session, and carry out commands until ``Close``."""
        workspace = self._begin()
        self._running = Running(self._session, self._stream, workspace)
        self._desk = LandingDesk(self._session.task, self._stream, self._running.judging)
        self._recover()
        self._stream.emit(ev.EngineReady(session=self._session.id, folder=str(self._session.folder)))
        self._running.warm_up()
        while not isinstance(command := await self._commands.get(), cmd.Close):
            try:
                self._obey(command)
            except EnvironmentFault as fault:
                self._complain(fault)
        await self._close()

    def _begin(self) -> Workspace:
        """Open the workspace and store that the session began or goes on."""
        task, state = self._session.task, self._state
        whole = (self._session.workspace / ".git").exists()
        workspace = Workspace.open(task, self._session.workspace)
        base = base_files(self._session)
        if not state.started:
            files = {path: self._stream.blob(content) for path, content in workspace.files().items()}
            if base:
                files = {path: self._stream.blob(content) for path, content in workspace.original().items()}
                workspace.restore(base)
            self._stream.emit(
                ev.SessionStarted(
                    task=task.to_json(),
                    model=self._session.settings.model,
                    device=self._session.device,
                    versions=self._session.versions,
                    files=files,
                )
            )
            return workspace
        note = SHELL_LOST
        if not whole:
            last = state.judged[-1] if state.judged else None
            start = base or self._stream.files(state.original_files)
            workspace.restore(self._stream.files(last.files) if last else start)
            note += f" The workspace was made again as of {f'attempt {last.attempt}' if last else 'the start'}."
        self._stream.emit(ev.SessionResumed(note=note))
        return workspace

    def _recover(self) -> None:
        """Settle what an engine that was killed left open: a landing, a run."""
        try:
            self._desk.recover()
        except LandingRefused as refused:
            self._complain(refused)
        if self._state.running:
            self._running.close_open_calls(f"{CUT_OFF}: the session was resumed before this was done.")
            self._stream.emit(
                ev.RunEnded(reason=EndReason.INTERRUPTED, detail="The engine was stopped during the run.")
            )

    def _obey(self, command: Command | str) -> None:
        match command:
            case cmd.Run(rest=rest):
                self._running.start(rest=rest)
            case cmd.Steer(text=text):
                self._stream.emit(ev.Steered(text=text, skill=self._running.skill_for(text)))
                self._running.start()
            case cmd.Interrupt():
                self._interrupt()
            case cmd.AnswerPermission(call_id=call_id, scope=scope, reason=reason):
                self._running.permissions.answer(call_id, scope, reason)
            case cmd.SetMode(mode=mode):
                self._running.permissions.set_mode(mode)
            case cmd.TrustSkills(skills=skills):
                self._running.trust(skills)
            case cmd.AcceptHunk(attempt=attempt, file=file, hunk=hunk):
                if self._known(attempt):
                    self._stream.emit(ev.HunkAccepted(attempt=attempt, file=file, hunk=hunk))
            case cmd.RejectHunk(attempt=attempt, file=file, hunk=hunk, reason=reason):
                if self._known(attempt):
                    self._stream.emit(ev.HunkRejected(attempt=attempt, file=file, hunk=hunk, reason=reason))
            case cmd.Land(attempt=attempt, commit=commit, faster=faster, untimed=untimed):
                self._do(self._desk.land(attempt, commit=commit, faster=faster, untimed=untimed))
            case cmd.Measure(attempt=attempt):
                self._do(self._measure(attempt))
            case cmd.Undo(landing=landing, partly=partly):
                self._do(self._desk.undo(landing, partly=partly))
            case cmd.Redo(landing=landing):
                self._do(self._desk.redo(landing))
            case _:
                self._stream.emit(
                    ev.ErrorEvent(what="The engine was sent something that is no command.", where=str(command))
                )

    def _known(self, attempt: int) -> bool:
        if self._state.attempt(attempt) is None:
            self._stream.emit(ev.ErrorEvent(what=f"There is no attempt {attempt}."))
            return False
        return True

    def _interrupt(self) -> None:
        if not (self._running.busy or self._chores):
            return
        if not self._running.stopping:  # told once, though whoever interrupts often closes at once too
            self._stream.emit(ev.Interrupted())
        self._running.stop(Ended(EndReason.INTERRUPTED))
        for chore in self._chores:
            chore.cancel()

    async def _measure(self, attempt: int) -> None:
        judged = self._state.attempt(attempt)
        if judged is None:
            raise LandingRefused(f"There is no attempt {attempt}.")
        await self._running.judging.attempt(self._stream.files(judged.files), "full", fresh=True)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a landing or an undo beside everything else, one at a time."""
        chore = asyncio.create_task(self._chore(work))
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            async with self._one_chore:
                await work
        except asyncio.CancelledError:
            work.close()
            self._stream.emit_anyway(ev.LandingRefusedEvent(what="Interrupted; nothing was written."))
        except LandingRefused as refused:
            self._complain(refused)
        except WarpsmithError as error:
            self._complain(LandingRefused(error.what, where=error.where, next_step=error.next_step))
        except Exception as error:  # noqa: BLE001 - the boundary of a task nobody awaits
            self._complain(_understood(error, "The landing failed"))

    def _complain(self, error: WarpsmithError) -> None:
        record = ev.LandingRefusedEvent if isinstance(error, LandingRefused) else ev.ErrorEvent
        self._stream.emit_anyway(record(what=error.what, where=error.where, next_step=error.next_step))

    async def _close(self) -> None:
        with contextlib.suppress(EnvironmentFault):
            self._interrupt()
        await asyncio.gather(*self._chores)
        await self._running.close()


def main() -> ExitCode:
    """Run the engine on the session folder named on the command line."""
    source, output = _claim_pipes()
    try:
        folder = Path(sys.argv[1]).resolve()
        session, stream = open_stream(folder, output)
        asyncio.run(_serve(session, stream, source))
    except WarpsmithError as error:
        return _give_up(error, output)
    except Exception as error:  # noqa: BLE001 - the boundary of the process
        return _give_up(_understood(error, "The engine failed"), output)
    stream.writer.close()
    return ExitCode.OK


def _understood(error: Exception, what: str) -> WarpsmithError:
    """Return an unforeseen error as what it is: a full disk and its like are the machine's, all else is ours."""
    fault = machine_fault(error) if isinstance(error, OSError) else None
    if fault is None:
        traceback.print_exc()
    return fault or InternalError(f"{what}: {error!r}.")


def _give_up(error: WarpsmithError, output: int) -> ExitCode:
    """Tell whoever started this engine why it ends; on stderr only where nobody listens any more."""
    event = ev.ErrorEvent(what=error.what, where=error.where, next_step=error.next_step)
    try:
        os.write(output, encode(ev.to_json(event)))
    except OSError:
        sys.stderr.write(f"{error}\n")
    return error.exit_code


def open_stream(folder: Path, output: int) -> tuple[Session, Stream]:
    """Open a session for writing and fold what happened in it so far.

    Raises:
        UsageError: There is no session, or another engine has it.
        EnvironmentFault: It cannot be read or written.
    """
    session = open_session(folder)
    writer = SessionWriter(folder)
    return session, Stream(writer, output, read_state(folder))


async def _serve(session: Session, stream: Stream, source: int) -> None:
    engine, loop = Engine(session, stream), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, engine.send, cmd.Close())
    reader = threading.Thread(target=_read_commands, args=(source, loop, engine), name="commands", daemon=True)
    reader.start()
    await engine.serve()


def _claim_pipes() -> tuple[int, int]:
    """Take stdin and stdout away from everyone else, this process's libraries and children included.

    A stray print goes to stderr, and a child that reads its stdin finds it empty.
    """
    source, output = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return source, output


def _read_commands(source: int, loop: asyncio.AbstractEventLoop, engine: Engine) -> None:
    """Pass on commands line by line; the end of the pipe is the command to close."""
    with open(source, "rb", buffering=0) as pipe, contextlib.suppress(RuntimeError):  # the loop may be closed already
        rest = b""
        while piece := pipe.read(1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(engine.send, _parsed(line))
        loop.call_soon_threadsafe(engine.send, cmd.Close())


def _parsed(line: bytes) -> Command | str:
    try:
        return cmd.from_json(json.loads(line))
    except (ValueError, KeyError, TypeError):
        return line.decode(errors="replace")


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # a thread that still imports or waits holds up nothing: all is on disk
