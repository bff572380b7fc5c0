"""The agent's loop: ask the model, run the tools it calls, tell it the results, until one of the named reasons ends it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent import events as ev
from agent.asking import ask
from agent.budget import Budget
from agent.context.window import REFERENCE, Window
from agent.contrast import contrast_of
from agent.events import EndReason
from agent.framing import spoken
from agent.model import ContextTooLong, Model, ModelRefused, Piece, RunStopped
from agent.redact import Redactor
from agent.state import CUT_OFF
from agent.stream import Stream
from agent.tool_calls import ToolCall, parse_errors, understand
from agent.tools.base import Tool, ToolResult

EMPTY_LIMIT = 3
"""This many answers in a row with neither text nor a call end the run."""
UNUSABLE_LIMIT = 8
"""So do this many in a row whose calls could all not be understood."""
EDITING_TOOLS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
JUDGING_TOOL = "Check"
"""Not run in an answer in which an edit failed before it: the model did not mean that state to be judged."""

NUDGE_EMPTY = "Your answer was empty. Go on with the task: call a tool, or say that you are done and why."
NUDGE_CUT = "Your answer was cut off at the output limit. Go on from where it stopped, in smaller steps."
NUDGE_UNJUDGED = (
    "No attempt is correct yet. Go on until Check reports one, or say why that is impossible, which ends the run."
)


Permit = Callable[[ToolCall, Tool], Awaitable[str]]
"""Asked before a call runs; returns an empty text, or what the model is told in place of the tool's answer."""


async def permit_all(_call: ToolCall, _tool: Tool) -> str:
    """Let every call run."""
    return ""


@dataclass(frozen=True)
class Ended:
    """Why a run ended, and what there is to say about it."""

    reason: EndReason
    detail: str = ""


class Loop:
    """One run of the agent on a session's conversation.

    Args:
        budget: Of this run.
        context_tokens: Budget for the request, in tokens; the model's own limit wins if it is smaller.
        contrast: Whether earlier variants are compared before the next attempt.
        begun_from_attempt: The workspace began as an attempt of another session, and not as the original.
        permit: Asked before every call that could run.
        files: Returns the workspace's files, to be told when the conversation is shortened.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[Tool],
        stream: Stream,
        redact: Redactor,
        *,
        budget: Budget,
        context_tokens: int,
        contrast: bool = False,
        begun_from_attempt: bool = False,
        permit: Permit = permit_all,
        files: Callable[[], Mapping[str, bytes]] = dict,
    ) -> None:
        self._model = model
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._stream = stream
        self._state = stream.state
        self._redact = redact
        self._budget = budget
        self._contrasting = contrast
        self._window = Window(stream, redact, model, context_tokens, files)
        self._permit = permit
        self._unusable = 0
        self._nudged = begun_from_attempt  # which is correct: nothing better may well be found
        self._failed_edit = ""

    async def run(self) -> Ended:
        """Run to the end; cancelling leaves every call that was begun with a result in the conversation."""
        deadline = self._budget.deadline()
        try:
            async with deadline:
                return await self._turns()
        except TimeoutError:
            if not deadline.expired():
                raise
            return Ended(EndReason.TIME_LIMIT, f"The {self._budget.limits.minutes:g} minutes of this run are over.")
        except RunStopped as stopped:
            return Ended(stopped.reason, stopped.detail)
        except ContextTooLong as error:
            return Ended(EndReason.CONTEXT_LENGTH, str(error))
        except ModelRefused as error:
            return Ended(EndReason.MODEL_ERROR, str(error))

    async def _turns(self) -> Ended:
        while True:
            if over := self._budget.over(self._state.spent):
                return Ended(*over)
            if warning := self._budget.warning(self._state.spent):
                self._say(warning)
            if ended := await self._turn():
                return ended

    async def _turn(self) -> Ended | None:
        self._tell_steering()
        self._contrast()
        self._window.make_room()
        try:
            answer, calls = await self._answer()
        except ContextTooLong as error:
            self._window.make_room(error)
            answer, calls = await self._answer()
        self._unusable = 0 if any(call.problem == "" for call in calls) else self._unusable + 1
        if calls:
            await self._run_calls(calls)
            if self._unusable >= UNUSABLE_LIMIT:
                return Ended(
                    EndReason.MODEL_SILENT, f"{self._unusable} answers in a row held no call that could be run."
                )
            return None
        return self._without_calls(answer.message["content"], answer.finish_reason)

    def _tell_steering(self) -> None:
        for origin, text in list(self._state.steering):
            self._say(spoken(text), "steer" if origin == "steer" else "decision")

    def _contrast(self) -> None:
        """Ask for a comparison of earlier variants, where an attempt has made a new one possible."""
        if not self._contrasting:
            return
        found = contrast_of(self._state.judged, self._state.contrasted, self._stream.files)
        if found is not None:
            message = {"role": "user", "content": self._redact(found.text)}
            self._stream.emit(ev.UserMessage(message=message, origin="contrast", attempts=list(found.attempts)))

    async def _answer(self) -> tuple[ev.ModelTurn, list[ToolCall]]:
        turn, prompt, started = self._state.turns + 1, self._state.prompt_sha256, time.monotonic()

        def show(piece: Piece) -> None:
            self._stream.emit(ev.Delta(turn=turn, kind=piece.kind, text=piece.text, call=piece.call, name=piece.name))

        def note(error: str, seconds: float) -> None:
            self._stream.emit(ev.ModelRetry(turn=turn, error=self._redact(error), wait_seconds=seconds))

        answer = await ask(self._model, self._state.messages, self._state.tools, show, note)
        message, calls = understand(answer.message, turn, self._tools, cut=answer.finish_reason == "length")
        event = ev.ModelTurn(
            turn=turn,
            message=message,
            prompt_sha256=prompt,
            finish_reason=answer.finish_reason,
            model=answer.model,
            seconds=round(time.monotonic() - started, 3),
            usage=answer.usage,
            reasoning=answer.reasoning,
            cost_usd=answer.cost_usd,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
            prompt_tokens_kept=answer.prompt_tokens_kept,
            prompt_token_ids=answer.prompt_token_ids,
            tokens_note=answer.tokens_note,
            sampling=answer.sampling,
            identity=answer.identity,
            parse_errors=parse_errors(calls),
        )
        self._stream.emit(event)
        return event, calls

    def _without_calls(self, text: str, finish_reason: str) -> Ended | None:
        """Decide what an answer without calls means: the end, or a reason to ask once more."""
        if finish_reason == "length":
            self._say(NUDGE_CUT)
        elif not text.strip():
            if self._unusable >= EMPTY_LIMIT:
                return Ended(EndReason.MODEL_SILENT, f"{self._unusable} answers in a row were empty.")
            self._say(NUDGE_EMPTY)
        elif self._state.steering:
            return None
        elif self._state.best is None and not self._nudged:
            self._nudged = True
            self._say(NUDGE_UNJUDGED)
        else:
            return Ended(EndReason.FINISHED)
        return None

    def _say(self, text: str, origin: Any = "notice") -> None:
        self._stream.emit(ev.UserMessage(message={"role": "user", "content": text}, origin=origin))

    async def _run_calls(self, calls: Sequence[ToolCall]) -> None:
        """Run read-only calls that stand together at once, and all others one by one.

        Answers are told in the order of the calls: many chat templates leave out which call an answer is to.
        """
        self._failed_edit = ""
        try:
            for together, group in itertools.groupby(calls, self._is_read_only):
                if together:
                    async with asyncio.TaskGroup() as tasks:
                        running = [(call, tasks.create_task(self._run_call(call))) for call in group]
                        for call, task in running:
                            self._finish(call.id, call.name, *await task)
                else:
                    for call in group:
                        self._finish(call.id, call.name, *await self._run_call(call))
        except asyncio.CancelledError:
            self.close_open_calls(f"{CUT_OFF} before it was done.")
            raise
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None

    def _is_read_only(self, call: ToolCall) -> bool:
        return call.problem != "" or self._tools[call.name].read_only

    async def _run_call(self, call: ToolCall) -> tuple[ToolResult, float]:
        """Run a call, and return its result and for how many seconds it ran."""
        self._stream.emit(ev.ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments))
        refusal = call.problem or self._not_meant(call)
        if not refusal:
            with self._budget.paused():  # what the developer takes to answer is neither the run's time nor the tool's
                refusal = await self._permit(call, self._tools[call.name])
        started = time.monotonic()
        result = ToolResult(ok=False, text=refusal) if refusal else await self._tools[call.name].run(call.arguments)
        if call.name in EDITING_TOOLS and not result.ok:
            self._failed_edit = call.name
        return result, time.monotonic() - started

    def _not_meant(self, call: ToolCall) -> str:
        """Say why a state is not judged that the model did not mean; empty for what it meant."""
        if call.name != JUDGING_TOOL or not self._failed_edit:
            return ""
        return f"{call.name} was not run: the {self._failed_edit} before it in this answer failed."

    def close_open_calls(self, text: str) -> None:
        """Give every call without a result this one, so that the conversation can go on."""
        for call_id, name in list(self._state.open_calls.items()):
            self._finish(call_id, name, ToolResult(ok=False, text=text), 0.0)

    def _finish(self, call_id: str, name: str, result: ToolResult, seconds: float) -> None:
        full = None if result.full is None else self._stream.blob(self._redact(result.full).encode(errors="replace"))
        reference = f"\n[the whole: Recall {full[:REFERENCE]}]" if full else ""
        message = {"role": "tool", "tool_call_id": call_id, "content": self._redact(result.text) + reference}
        self._stream.emit(
            ev.ToolFinished(
                call_id=call_id, name=name, ok=result.ok, message=message, seconds=round(seconds, 3), full=full
            )
        )
