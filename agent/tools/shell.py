"""A bash that lives as long as the session: in the workspace, isolated, without GPU and network.

Bash runs a loop of ours. Commands reach it on its standard input, which a command itself does not see: its own input is empty.
What commands print comes on the shell's standard output, and at the end of each the loop prints a mark with its exit status. The
mark is new for every command, so that nothing a command prints, however strange, is taken for its end.
Background commands are jobs of the same shell; their output goes to files in the cell's private folder for temporary files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from agent.tools.recorder import Recorder
from sandbox.isolation import Cell, CellProcess, Isolation

_PIECE = 1 << 16
_END_SECONDS = 5.0
_LONGEST_MARK = 40
_LOOP = r"""
exec 3<&0 5>&1 </dev/null 2>&1
while IFS= read -r -d '' -u 3 WARPSMITH_MARK && IFS= read -r -d '' -u 3 WARPSMITH_COMMAND; do
  { eval "$WARPSMITH_COMMAND"; } </dev/null >&5 2>&1 3<&- 5>&-
  printf '\0%s %s\0' "$WARPSMITH_MARK" $? >&5
done
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended.

    Attributes:
        output: What it printed, shortened in the middle if it was very much.
        status: Its exit status; None if it was stopped at its time limit.
        shell_ended: Whether the shell is gone with it (``exit``, ``exec``, or stopped), and everything in it.
    """

    output: str
    status: int | None
    shell_ended: bool = False


class Shell:
    """One bash in a cell, started when it is first needed and again after it ended."""

    def __init__(self, isolation: Isolation, cell: Callable[[], Cell]) -> None:
        self._isolation = isolation
        self._cell = cell
        self._process: CellProcess | None = None
        self._over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._record = Recorder()
        self._end = _End("")
        self._one_at_a_time = asyncio.Lock()
        self.generation = 0
        """Counts the shells started so far: what belonged to an earlier one is gone."""

    async def run(self, command: str, seconds: float) -> Ran:
        """Run a command and wait for its end, at most ``seconds``.

        Raises:
            EnvironmentFault: The shell cannot be isolated.
        """
        async with self._one_at_a_time:
            process = await self._started()
            self._end = _End(secrets.token_hex(8))
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.to_thread(_send, process, self._end.mark, command)
                    await self._end.came.wait()
            except TimeoutError:
                await asyncio.to_thread(self._isolation.kill, process)
                return Ran(self._finish(), None, shell_ended=True)
            except asyncio.CancelledError:
                self.close()
                raise
            if self._end.status is not None:
                return Ran(self._take(), self._end.status)
            await asyncio.to_thread(self._await_end, process)
            return Ran(self._finish(), process.returncode, shell_ended=True)

    def close(self) -> None:
        """Kill the shell with everything in it; a later command starts a new one."""
        if self._process is not None:
            self._isolation.kill(self._process)
            self._finish()

    async def _started(self) -> CellProcess:
        """Return the running shell, starting one where there is none."""
        if self._process is not None and self._over:
            await asyncio.to_thread(self._await_end, self._process)
            self._finish()
        if self._process is None:
            command = ["bash", "--noprofile", "--norc", "-c", _LOOP]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            process = await asyncio.to_thread(lambda: self._isolation.popen(command, self._cell(), **pipes))
            self.generation += 1
            self._process, self._over, self._loop = process, False, asyncio.get_running_loop()
            output = _output(process)
            os.set_blocking(output, False)
            self._loop.add_reader(output, self._collect, output)
        return self._process

    def _collect(self, output: int) -> None:
        """Take what the shell has printed by now, and notice the end of the command or of the shell."""
        piece = _read(output)
        if piece is None:
            return
        self._record.add(piece)
        self._end.look(piece)
        if not piece and self._loop is not None:
            self._over = True
            self._loop.remove_reader(output)

    def _await_end(self, process: CellProcess) -> None:
        """Let a shell that is ending end by itself, so that its status is its own."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        self._isolation.kill(process)

    def _take(self) -> str:
        """Return what was printed since this was called last."""
        text = self._end.removed_from(self._record.text())
        self._record = Recorder()
        return text

    def _finish(self) -> str:
        """Let go of a shell that is dead and return what it still printed."""
        process, self._process = self._process, None
        assert process is not None
        output = _output(process)
        if self._loop is not None:
            self._loop.remove_reader(output)
        while piece := _read(output):
            self._record.add(piece)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return self._take()


class _End:
    """The end of one command: its mark in the output, and the exit status that follows it; None if the shell ended instead."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.came = asyncio.Event()
        self.status: int | None = None
        self._expression = re.compile(b"\0%s (\\d+)\0" % mark.encode())
        self._recent = b""

    def look(self, piece: bytes) -> None:
        """Look at the next bytes of the output; no bytes are its end."""
        text = self._recent + piece
        if self.mark and (found := self._expression.search(text)):
            self.status = int(found[1])
        if self.status is not None or not piece:
            self.came.set()
        self._recent = text[-_LONGEST_MARK:]

    def removed_from(self, text: str) -> str:
        """Return an output without the mark."""
        return text.replace(f"\0{self.mark} {self.status}\0", "")


def _output(process: CellProcess) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


def _send(process: CellProcess, *texts: str) -> None:
    """Write texts to the shell; one that died meanwhile is noticed by the end of its output."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        for text in texts:
            process.stdin.write(text.encode(errors="replace") + b"\0")
        process.stdin.flush()


def _read(descriptor: int) -> bytes | None:
    """Return what can be read now: empty at the end of the stream, None if there is nothing yet."""
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None
