"""Bash, BashOutput and KillBash: commands in the session's shell."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from agent.tools.base import SCREEN, FunctionTool, Tool, ToolProblem, ToolResult, clipped
from agent.tools.shell import Ran, Shell

DEFAULT_SECONDS = 120
LONGEST_SECONDS = 600
_OWN_SECONDS = 30
_LONGEST_LOG_KIB = 16_384

# Runs a command as a process group of its own; a subshell starts it, so that the shell's own state stays as it is.
_START = """(
  set -m
  log=$(command -p mktemp "${{TMPDIR:-/tmp}}/.output.XXXXXX")
  {{ ( eval {command} ); echo $? >"$log.status"; }} 2>&1 </dev/null |
    {{ ( ulimit -f {most}; command -p cat >"$log" ); command -p cat >/dev/null; }} 2>/dev/null &
  printf '%s %s' "$(jobs -p %%)" "$log"
)"""
_LOOK = """(
  command -p cat {log}.status 2>/dev/null || {{ kill -0 -- -{group} 2>/dev/null && echo running; }} || echo lost
  size=$(command -p wc -c <{log}); echo "$size"
  command -p tail -c +{next} {log} | command -p head -c $((size - {next} + 1))
)"""
_KILL = "kill -KILL -- -{group} 2>/dev/null && echo killed"


@dataclass
class _Job:
    """A background command: its process group and log inside the cell, how much of the log was shown, and how it ended."""

    command: str
    group: str
    log: str
    generation: int
    shown: int = 0
    end: str = ""


class BashTools:
    """The three tools, and the background commands they share."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._jobs: dict[str, _Job] = {}

    def tools(self) -> list[Tool]:
        """Return the three tools."""
        bash = {
            "command": {"type": "string", "minLength": 1, "description": "The command; several lines are fine."},
            "timeout_seconds": {
                "type": "integer",
                "minimum": 1,
                "maximum": LONGEST_SECONDS,
                "description": f"Default {DEFAULT_SECONDS}. When it is over, the shell and all it started are killed.",
            },
            "run_in_background": {
                "type": "boolean",
                "description": "Return at once with an id; read its output with BashOutput, end it with KillBash.",
            },
        }
        identity = {"bash_id": {"type": "string", "description": "The id that Bash gave, such as bash_1."}}
        return [
            FunctionTool("Bash", _BASH, bash, self.bash, ("command",)),
            FunctionTool("BashOutput", _OUTPUT, identity, self.output, ("bash_id",)),
            FunctionTool("KillBash", _KILL_TEXT, identity, self.kill, ("bash_id",)),
        ]

    async def bash(
        self, command: str, timeout_seconds: int = DEFAULT_SECONDS, run_in_background: bool = False
    ) -> ToolResult:
        """Run a command in the shell."""
        if "\0" in command:
            raise ToolProblem("A command cannot hold a null character.")
        if run_in_background:
            return await self._start(command)
        ran = await self._shell.run(command, timeout_seconds)
        return clipped(
            "\n".join(filter(None, (ran.output.rstrip("\n"), _ending(ran, timeout_seconds)))),
            ok=ran.status == 0,
            limit=SCREEN,
        )

    async def output(self, bash_id: str) -> ToolResult:
        """Show what a background command has printed since it was looked at last."""
        job = self._job(bash_id)
        if job.end:
            return ToolResult(ok=True, text=f"{bash_id} {job.end}. Nothing new was printed.")
        ran = await self._in_shell_of(
            bash_id, _LOOK.format(log=shlex.quote(job.log), group=job.group, next=job.shown + 1)
        )
        status, size, text = ran.output.split("\n", 2)
        job.shown = int(size)
        job.end = {"running": "", "lost": "was killed"}.get(status, f"ended with status {status}")
        return clipped(
            f"{bash_id} {job.end or 'is running'}.\n{text}" if text else f"{bash_id} {job.end or 'is running'}.",
            limit=SCREEN,
        )

    async def kill(self, bash_id: str) -> ToolResult:
        """End a background command with all it started."""
        job = self._job(bash_id)
        if job.end:
            raise ToolProblem(f"{bash_id} {job.end} already.")
        ran = await self._in_shell_of(bash_id, _KILL.format(group=job.group))
        job.end = "was killed" if ran.status == 0 else "ended by itself"
        return ToolResult(ok=True, text=f"{bash_id} {job.end}.")

    async def _start(self, command: str) -> ToolResult:
        ran = await self._shell.run(_START.format(command=shlex.quote(command), most=_LONGEST_LOG_KIB), _OWN_SECONDS)
        group, _, log = ran.output.rpartition("\n")[2].partition(" ")
        if not group.isdigit():
            raise ToolProblem(f"The command could not be started in the background: {ran.output or 'the shell ended'}.")
        bash_id = f"bash_{len(self._jobs) + 1}"
        self._jobs[bash_id] = _Job(command, group, log, self._shell.generation)
        return ToolResult(ok=True, text=f"Started in the background as {bash_id}.")

    def _job(self, bash_id: str) -> _Job:
        if bash_id not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise ToolProblem(f"There is no background command {bash_id}. Known are: {known}.")
        return self._jobs[bash_id]

    async def _in_shell_of(self, bash_id: str, script: str) -> Ran:
        """Run a script of ours in the shell a background command belongs to, if that still lives."""
        job = self._jobs[bash_id]
        ran = await self._shell.run(script, _OWN_SECONDS)
        if self._shell.generation != job.generation or ran.shell_ended:
            job.end = "was lost, with its output, when its shell ended"
            raise ToolProblem(f"{bash_id} {job.end}.")
        return ran


def _ending(ran: Ran, seconds: int) -> str:
    """Say what the output does not: that it failed, was stopped or took the shell with it."""
    anew = "The next command gets a new shell in the workspace: variables, folder and background commands are gone."
    if ran.status is None:
        instead = "Give a longer timeout_seconds, or run it in the background."
        return f"[stopped after {seconds} s, with everything it started. {anew} {instead}]"
    if ran.shell_ended:
        how = f"was killed by signal {-ran.status}" if ran.status < 0 else f"ended with status {ran.status}"
        return f"[the shell {how}. {anew}]"
    if ran.status:
        return f"[exit status {ran.status}]"
    return "" if ran.output else "[no output]"


_BASH = (
    "Run a command in a bash that keeps its folder, variables and functions between calls. It starts in the workspace and can "
    "write there and in /tmp only. It has no GPU and no network, and its input is empty. Both outputs come as one; of a very "
    "long output only the beginning and the end. For reading, searching and changing files use Read, Grep, Glob and Edit."
)
_OUTPUT = "Show what a background command has printed since the last look, and whether it still runs."
_KILL_TEXT = "End a background command with all it started."
