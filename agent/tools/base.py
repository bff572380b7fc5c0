"""What a tool is, what it answers, and how an answer is cut to a size a model can take."""

from __future__ import annotations

import asyncio
import errno
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agent.framing import as_data
from agent.tools.arguments import mismatch, settled
from sandbox.errors import EnvironmentFault

LONGEST_ANSWER = 16_000
"""Characters. Source and skills that are read are told up to here."""
SCREEN = 6_000
"""Characters. What commands print and searches find is told up to here: about a screen, the rest by reference."""
_HEAD_SHARE = 0.6
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class ToolResult:
    """What a call came to. ``text`` is what the model sees; ``full`` the whole of it where it was clipped."""

    ok: bool
    text: str
    full: str | None = None


class Tool(Protocol):
    """Something the model can call."""

    @property
    def name(self) -> str:
        """As the model calls it."""

    @property
    def read_only(self) -> bool:
        """Whether it leaves everything as it is, so that several may run at the same time."""

    @property
    def schema(self) -> dict[str, Any]:
        """Name, description and parameters (JSON Schema), as OpenAI's ``function`` object."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Do it. What the model did wrong is an answer that is not ok, never an exception.

        Raises:
            EnvironmentFault: The machine is at fault: a full disk, or a shell that cannot be isolated.
        """


class ToolProblem(Exception):
    """A call cannot be done as asked; the text tells the model why, and what to do."""


@dataclass(frozen=True)
class FunctionTool:
    """A tool made of a function, which takes the parameters by name; one that is no coroutine runs in a thread."""

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., ToolResult | str | Awaitable[ToolResult | str]]
    required: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Name, description and parameters in OpenAI's function form."""
        return {"name": self.name, "description": self.description, "parameters": self._parameters}

    @property
    def _parameters(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": self.parameters,
            "required": list(self.required),
            "additionalProperties": False,
        }

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Check the arguments, call the function and clip what it answers; see ``Tool.run``."""
        arguments = settled(arguments, self._parameters)
        if problem := mismatch(arguments, self._parameters):
            return ToolResult(ok=False, text=f"{self.name} was not run: {problem}")
        try:
            if inspect.iscoroutinefunction(self.function):
                answer = await self.function(**arguments)
            else:
                answer = await asyncio.to_thread(self.function, **arguments)
        except ToolProblem as problem:
            return clipped(as_data(str(problem)), ok=False)
        except OSError as error:
            if error.errno in _FULL_DISK:
                raise EnvironmentFault(
                    "The disk is full.",
                    where=str(error.filename or "workspace"),
                    next_step="Free some space and resume.",
                ) from error
            return ToolResult(ok=False, text=f"{self.name} failed: {error.strerror or error}.")
        result = answer if isinstance(answer, ToolResult) else clipped(str(answer))
        return replace(result, text=as_data(result.text))


def clipped(text: str, *, ok: bool = True, limit: int = LONGEST_ANSWER) -> ToolResult:
    """Return an answer of at most about ``limit`` characters: of a longer text its beginning and its end."""
    if len(text) <= limit:
        return ToolResult(ok, text)
    head_end = _line_end(text, int(limit * _HEAD_SHARE))
    tail_start = _line_start(text, len(text) - int(limit * (1 - _HEAD_SHARE)))
    left_out = text[head_end:tail_start]
    note = f"\n[... {left_out.count(chr(10)):,} lines ({len(left_out):,} characters) left out here ...]\n"
    return ToolResult(ok, text[:head_end] + note + text[tail_start:], full=text)


def _line_end(text: str, near: int) -> int:
    """Return the end of the last whole line before ``near``, or ``near`` where lines are too long for that."""
    found = text.rfind("\n", near // 2, near)
    return near if found < 0 else found


def _line_start(text: str, near: int) -> int:
    found = text.find("\n", near, near + (len(text) - near) // 2)
    return near if found < 0 else found + 1
