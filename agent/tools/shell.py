"""A bash that lives as long as the session: in the workspace, isolated, without GPU and network.

Bash runs a loop of ours. Commands reach it on its standard input, each ended by a null byte; what they print comes on its
standard output, and after each the loop says its exit status on its standard error. A command itself sees neither channel:
its input is empty, and both of its outputs are the one stream. So nothing it prints, however strange, is taken for an end.
Background commands are jobs of the same shell; their output goes to files in the cell's private folder for temporary files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from agent.tools.recorder import Recorder
from sandbox.isolation import Cell, CellProcess, Isolation

_PIECE = 1 << 16
_END_SECONDS = 5.0
_LOOP = r"""
exec 3<&0 4>&2 5>&1 </dev/null 2>&1
while IFS= read -r -d '' -u 3 WARPSMITH_COMMAND; do
  { eval "$WARPSMITH_COMMAND"; } </dev/null >&5 2>&1 3<&- 4>&- 5>&-
  printf '%s\0' $? >&4
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._record = Recorder()
        self._said = bytearray()
        self._ended: asyncio.Future[bytes] | None = None
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
            self._ended = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.to_thread(_send, process, command.encode(errors="replace") + b"\0")
                    status = await self._ended
            except TimeoutError:
                await asyncio.to_thread(self._isolation.kill, process)
                return Ran(self._finish(), None, shell_ended=True)
            except asyncio.CancelledError:
                self.close()
                raise
            if status:
                self._collect_output(process)
                return Ran(self._take(), int(status))
            await asyncio.to_thread(self._await_end, process)
            return Ran(self._finish(), process.returncode, shell_ended=True)

    def close(self) -> None:
        """Kill the shell with everything in it; a later command starts a new one."""
        if self._process is not None:
            self._isolation.kill(self._process)
            self._finish()

    async def _started(self) -> CellProcess:
        """Return the running shell, starting one where there is none."""
        if self._process is not None and self._process.poll() is not None:
            self._finish()
        if self._process is None:
            command = ["bash", "--noprofile", "--norc", "-c", _LOOP]
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            self._process = await asyncio.to_thread(lambda: self._isolation.popen(command, self._cell(), **pipes))
            self.generation += 1
            self._said.clear()
            self._loop = asyncio.get_running_loop()
            for pipe, on_data in (
                (self._process.stdout, self._collect_output),
                (self._process.stderr, self._collect_report),
            ):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                self._loop.add_reader(pipe.fileno(), on_data, self._process)
        return self._process

    def _collect_output(self, process: CellProcess) -> None:
        """Take what the shell has printed by now."""
        assert process.stdout is not None
        if piece := self._read(process.stdout.fileno()):
            self._record.add(piece)

    def _collect_report(self, process: CellProcess) -> None:
        """Take what the loop says; the end of the channel, an empty report, is the end of the shell."""
        assert process.stderr is not None
        piece = self._read(process.stderr.fileno())
        if piece is None:
            return
        self._said += piece
        status, end, rest = self._said.partition(b"\0")
        if (end or not piece) and self._ended is not None and not self._ended.done():
            self._ended.set_result(bytes(status) if end else b"")
            self._said = rest

    def _read(self, descriptor: int) -> bytes | None:
        """Return what can be read now: empty at the end of the stream, None if there is nothing yet."""
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return None
        if not piece and self._loop is not None:
            self._loop.remove_reader(descriptor)
        return piece

    def _await_end(self, process: CellProcess) -> None:
        """Let a shell that is ending end by itself, so that its status is its own."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        self._isolation.kill(process)

    def _take(self) -> str:
        """Return what was printed since this was called last."""
        text = self._record.text()
        self._record = Recorder()
        return text

    def _finish(self) -> str:
        """Let go of a shell that is dead and return what it still printed."""
        process, self._process = self._process, None
        assert process is not None
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            if self._loop is not None:
                self._loop.remove_reader(pipe.fileno())
        assert process.stdout is not None
        while piece := self._read(process.stdout.fileno()):
            self._record.add(piece)
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return self._take()


def _send(process: CellProcess, data: bytes) -> None:
    """Write a command to the shell; one that died meanwhile is noticed by the end of its reports."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(data)
        process.stdin.flush()
