"""Where every tool call is decided before it runs, and where the developer's answers arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent import events as ev
from agent.framing import spoken
from agent.permissions.approvals import Approvals
from agent.permissions.modes import MODES, Decision, Rules, decide
from agent.permissions.question import last_sentence, question
from agent.permissions.rules import Rule, parse_rule
from agent.redact import Redactor
from agent.stream import Stream
from agent.tool_calls import ToolCall
from agent.tools.base import Tool, ToolProblem
from agent.tools.places import Places

ALLOWED = ""


@dataclass(frozen=True)
class _Answer:
    scope: str
    reason: str = ""


class PermissionDesk:
    """Decides about the calls of one session.

    Attributes:
        rules: The developer's.

    Args:
        stream: The session's events; what was decided in it before, by another engine too, still counts.
        places: The workspace, for paths as rules see them.
        redact: Applied to what is asked.
        rules: The developer's rules.
        approvals: What is allowed in this project for good.
        mode: The mode a session begins in; the last one chosen in it wins.
    """

    def __init__(
        self, stream: Stream, places: Places, redact: Redactor, *, rules: Rules, approvals: Approvals, mode: str
    ) -> None:
        self._stream = stream
        self._places = places
        self._redact = redact
        self.rules = rules
        self._approvals = approvals
        self._first_mode = mode
        self._one_question = asyncio.Lock()
        self._open: tuple[ToolCall, Tool, asyncio.Future[_Answer]] | None = None

    @property
    def mode(self) -> str:
        """The mode that holds now."""
        return self._stream.state.mode or self._first_mode

    async def permit(self, call: ToolCall, tool: Tool) -> str:
        """Return an empty text if the call may run, else what the model is told instead.

        Cancelled while the question is open, it leaves nothing behind: the call gets a result like any that was cut off.
        """
        decision = self._decide(call, tool)
        if decision.effect == "ask":
            async with self._one_question:
                decision = self._decide(call, tool)  # the answer before may have settled this one too
                if decision.effect == "ask":
                    return await self._ask(call, tool, decision)
        return decision.why if decision.effect == "deny" else ALLOWED

    def lets(self, name: str) -> bool:
        """Whether a tool's call that says no more than its name would run without a word of the developer's."""
        return decide(self.mode, self.rules, self._approved(), name, {}, read_only=False).effect == "allow"

    def answer(self, call_id: str, scope: str, reason: str = "") -> None:
        """Take the developer's answer; one to a question that is not open is passed over."""
        if self._open is None or self._open[0].id != call_id or self._open[2].done():
            return
        self._open[2].set_result(_Answer(scope, reason))

    def set_mode(self, mode: str) -> None:
        """Change the mode; a question that it settles is answered by it."""
        if mode not in MODES or mode == self.mode:
            return
        self._stream.emit(ev.ModeChanged(mode=mode))
        if self._open is None or self._open[2].done():
            return
        call, tool, answered = self._open
        decision = self._decide(call, tool)
        if decision.effect != "ask":
            answered.set_result(_Answer("mode", decision.why))

    def _decide(self, call: ToolCall, tool: Tool) -> Decision:
        arguments = self._inside(call.arguments)
        return decide(self.mode, self.rules, self._approved(), call.name, arguments, read_only=tool.read_only)

    def _approved(self) -> list[Rule]:
        return [*map(parse_rule, self._stream.state.allowed), *self._approvals.rules()]

    async def _ask(self, call: ToolCall, tool: Tool, decision: Decision) -> str:
        arguments = self._inside(call.arguments)
        asked = question(call.name, arguments, self._places, lasting=decision.rule is None)
        self._open = (call, tool, asyncio.get_running_loop().create_future())
        self._stream.emit(
            ev.PermissionAsked(
                call_id=call.id,
                tool=call.name,
                what=self._redact(asked.what),
                why=last_sentence(self._stream.state.messages),
                choices=asked.choices,
                detail=self._redact(asked.detail),
            )
        )
        try:
            answer = await self._open[2]
        finally:
            self._open = None
        return self._settle(call, answer, asked.choices)

    def _settle(self, call: ToolCall, answer: _Answer, choices: list[dict[str, str]]) -> str:
        """Store an answer, keep what it allows from now on, and return what the model is told."""
        chosen = next((choice for choice in choices if choice["scope"] == answer.scope), None)
        allowed = not answer.reason if answer.scope == "mode" else chosen is not None and answer.scope != "reject"
        pattern = chosen["pattern"] if chosen and allowed else ""
        self._stream.emit(
            ev.PermissionAnswered(
                call_id=call.id,
                decision="allow" if allowed else "reject",
                scope=answer.scope,
                pattern=pattern,
                reason=answer.reason,
            )
        )
        if allowed:
            if answer.scope == "project":
                self._approvals.add(parse_rule(pattern))
            return ALLOWED
        if answer.scope == "mode":
            return answer.reason
        why = f": {answer.reason}" if answer.reason else ", without giving a reason. Find another way."
        return spoken(f"The developer rejected this call of {call.name}{why}")

    def _inside(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with paths as they lie in the workspace, so that ``a/../b`` is what it is: ``b``."""
        inside = dict(arguments)
        for name in ("file_path", "notebook_path", "path"):
            if isinstance(inside.get(name), str):
                try:
                    inside[name] = self._places.relative(inside[name])
                except ToolProblem:  # the tool says so itself
                    continue
        return inside
