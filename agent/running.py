"""Runs of the agent on a session: what they need, how they start, and how each ends with a named reason."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.ahead import WorkAhead
from agent.budget import OVER, Budget, Limits
from agent.events import EndReason
from agent.judging import Judging
from agent.loop import Ended, Loop
from agent.measured_again import measure_best_again
from agent.model import REPLAYED, Model, make_model
from agent.permissions.approvals import Approvals
from agent.permissions.desk import PermissionDesk
from agent.permissions.modes import Rules
from agent.permissions.rules import parse_rule
from agent.prompt import opening_message, system_message
from agent.quoting import shows_whole
from agent.redact import Redactor
from agent.seen import files_seen
from agent.session import Session
from agent.skill_places import SkillTrust, find_skills, project_of
from agent.state import CUT_OFF, Judged
from agent.store import hashes_of, read_blob, read_events
from agent.stream import Stream
from agent.tools import WorkspaceTools, workspace_tools
from agent.tools.base import Tool
from agent.tools.check import check_tool
from agent.tools.ncu import ncu_tool
from agent.tools.places import Places
from agent.tools.profile import profile_tool
from agent.tools.recall import recall_tool
from agent.tools.sanitize import sanitize_tool
from agent.tools.skill import skill_tool
from agent.tools.sweep import ablate_tool, sweep_tool
from sandbox.errors import EnvironmentFault, ModelUnavailable, TaskError, UsageError, WarpsmithError
from sandbox.isolation import best_isolation
from sandbox.workspace import Workspace

SHELL_LOST = "The session was resumed: the shell is a new one, and commands that ran in the background are gone."
_MEASURED_AFTER = (
    EndReason.FINISHED,
    EndReason.CONTEXT_LENGTH,
    EndReason.MODEL_ERROR,
    EndReason.MODEL_SILENT,
    *OVER,
)
"""The ends after which the best attempt is measured again: all that neither the developer nor the machine made."""
GO_ON = "The developer asks you to go on: see whether more can be gained, or say why not."


class Running:
    """The loop of a session, started and stopped by the engine.

    Attributes:
        judging: The session's judge.
        permissions: Decides about the agent's calls.
    """

    def __init__(self, session: Session, stream: Stream, workspace: Workspace) -> None:
        self.judging = Judging(session, stream, self._on_judge_fault)
        self._session = session
        self._stream = stream
        self._workspace = workspace
        self._redact = Redactor(os.environ)
        self.permissions = self._desk()
        self._skills = find_skills(session.settings.home, project_of(session.task))
        self._model: Model | None = None
        self._tools: Sequence[Tool] = ()
        self._hands: WorkspaceTools | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = Ended(EndReason.INTERRUPTED)
        self._ended: Ended | None = None
        self._resumed = stream.state.turns > 0
        self._ahead = WorkAhead(
            stream,
            Places(workspace),
            build=self.judging.build_ahead,
            judge=self._judge_ahead,
            unasked=lambda: self.permissions.mode == "auto",
        )

    def _desk(self) -> PermissionDesk:
        settings, task = self._session.settings, self._session.task
        allow, ask, deny = (tuple(map(parse_rule, texts)) for texts in (settings.allow, settings.ask, settings.deny))
        return PermissionDesk(
            self._stream,
            Places(self._workspace),
            self._redact,
            rules=Rules(allow, ask, deny),
            approvals=Approvals(settings.home, project_of(task)),
            mode=settings.permission_mode,
        )

    @property
    def busy(self) -> bool:
        """Whether a run goes on."""
        return self._task is not None and not self._task.done()

    @property
    def stopping(self) -> bool:
        """Whether a run goes on that was told to stop."""
        return self._task is not None and not self._task.done() and self._task.cancelling() > 0

    def warm_up(self) -> None:
        """Begin what takes long before anyone waits for it: the model's client, and the judge."""
        for problem in self._skills.problems:
            self._stream.emit(ev.ErrorEvent(what="A skill is not used as it is.", where=problem))
        with contextlib.suppress(ModelUnavailable):  # told when a run is asked for: looking needs no model
            self._ready_model()
        self.judging.open()

    def skill_for(self, text: str) -> str:
        """Return the skill that the developer names as ``/name`` at the start of what they say, as the agent is told it."""
        skill = self._skills.asked_for(text)
        return skill.told if skill else ""

    def trust(self, skills: Mapping[str, str]) -> None:
        """Trust these skills of the project; a conversation that has begun goes on without them."""
        home, begun = self._session.settings.home, bool(self._stream.state.messages)
        for folder, files in skills.items():
            SkillTrust(home).give(Path(folder), files)
        if not begun:
            self._skills = find_skills(home, project_of(self._session.task))
        self._stream.emit(ev.SkillsTrusted(skills=dict(skills), used=not begun))

    def start(self, *, rest: bool = False) -> None:
        """Start a run, unless one goes on; with ``rest`` its limits are what earlier runs left of them."""
        if not self.busy:
            limits = Limits.of(self._session.settings)
            self._task = asyncio.create_task(self._run(limits.after(self._stream.state.spent) if rest else limits))

    def stop(self, ended: Ended) -> None:
        """Stop the run, if there is one, for this reason."""
        if self.busy and self._task is not None:
            self._stopped = ended
            self._task.cancel()

    async def close(self) -> None:
        """Wait for the run that was stopped, and end the judge and the agent's shell."""
        if self._task is not None:
            await asyncio.wait([self._task])  # one that was stopped before its first step is cancelled itself
        if self._hands is not None:
            await asyncio.to_thread(self._hands.close)
        await self.judging.close()

    def close_open_calls(self, text: str) -> None:
        """Give every call that an earlier run left open a result."""
        for call_id, name in list(self._stream.state.open_calls.items()):
            message = {"role": "tool", "tool_call_id": call_id, "content": text}
            self._stream.emit(ev.ToolFinished(call_id=call_id, name=name, ok=False, message=message, seconds=0.0))

    async def _run(self, limits: Limits) -> None:
        budget = Budget(limits, self._stream.state.spent)
        self._ended = None
        try:
            self._stream.emit(ev.RunStarted(turn_limit=limits.answers, budget=limits.to_json()))
            ended = await self._to_the_end(budget)
        except asyncio.CancelledError:
            ended = self._stopped
        except TaskError as error:
            ended = Ended(EndReason.TASK_UNUSABLE, str(error))
        except ModelUnavailable as error:
            ended = Ended(EndReason.MODEL_ERROR, str(error))
        except EnvironmentFault as error:
            ended = Ended(EndReason.ENVIRONMENT, str(error))
        except Exception as error:  # noqa: BLE001 - the boundary of the run: whatever it is, it ends with a reason
            traceback.print_exc()
            ended = Ended(EndReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        self.judging.stop_ahead()
        self._stream.emit_anyway(self._ending(ended, round(budget.minutes, 2)))

    def _ending(self, ended: Ended, minutes: float) -> ev.RunEnded:
        best, detail = self._stream.state.best, self._redact(ended.detail)
        if best is None:
            return ev.RunEnded(reason=ended.reason, detail=detail, minutes=minutes)
        profile = best.verdict.profile
        return ev.RunEnded(
            reason=ended.reason,
            detail=detail,
            best_attempt=best.attempt,
            best_reward=best.verdict.reward,
            best_speedup={name: asdict(gain) for name, gain in profile.speedup.items()} if profile else None,
            minutes=minutes,
            workspace=self._other_than(best),
        )

    def _other_than(self, best: Judged) -> str:
        """Say what the workspace holds instead of the best attempt; empty where it holds that."""
        try:
            hashes = hashes_of(self._workspace.files())
        except (UsageError, EnvironmentFault):
            return f"The workspace holds what cannot be judged; the best is attempt {best.attempt}."
        if hashes == best.files:
            return ""
        known = next((each for each in reversed(self._stream.state.judged) if each.files == hashes), None)
        what = f"attempt {known.attempt}, which is worse" if known else "a state that was not judged"
        return f"The workspace holds {what}; the best is attempt {best.attempt}."

    async def _to_the_end(self, budget: Budget) -> Ended:
        model = self._ready_model()
        if budget.limits.dollars and not await model.priced():
            raise ModelUnavailable(
                f"The price of {self._session.settings.model} is not known, so that what it costs cannot be limited.",
                next_step="Set input_price_usd and output_price_usd (dollars a million tokens), or limit --tokens instead.",
            )
        self.judging.open()
        if self.judging.timed:
            self.judging.begin_original()
        self._converse()
        self._ahead.begin()
        settings = self._session.settings
        loop = Loop(
            model,
            self._ready_tools(),
            self._stream,
            self._redact,
            budget=budget,
            contrast=settings.contrast and not settings.model.startswith(REPLAYED),
            begun_from_attempt=bool((self._session.search or {}).get("base")),
            context_tokens=settings.context_tokens,
            permit=self.permissions.permit,
            files=self._workspace.files,
        )
        while True:
            ended = self._ended = await loop.run()
            if ended.reason in _MEASURED_AFTER:
                try:
                    await measure_best_again(self._stream, self.judging, settings.reward_tier)
                except (TaskError, EnvironmentFault) as error:
                    self._tell(error)
            if ended.reason != EndReason.FINISHED or not self._steered_meanwhile:
                return ended
            self._ended = None

    @property
    def _steered_meanwhile(self) -> bool:
        return any(origin == "steer" for origin, _ in self._stream.state.steering)

    def _converse(self) -> None:
        """Begin the conversation, or say what has to be said before it goes on."""
        state = self._stream.state
        if len(state.messages) < 2:
            self._begin_conversation()
            return
        self.close_open_calls(f"{CUT_OFF} before this was done.")
        if self._resumed:
            self._resumed = False
            if not any(message["content"] == SHELL_LOST for message in _unanswered(state.messages)):
                self._notice(SHELL_LOST)
        elif not state.steering and state.messages[-1]["role"] == "assistant":
            self._notice(GO_ON)

    def _begin_conversation(self) -> None:
        spec, state = self._session.task, self._stream.state
        if not state.messages:
            schemas = [{"type": "function", "function": tool.schema} for tool in self._ready_tools()]
            system = system_message(spec, self._skills, self._session.settings.turn_limit)
            self._stream.emit(ev.ConversationStarted(message=system, tools=schemas))
        source = self._original_source().decode(errors="replace")
        opening = opening_message(spec, self._redact(source), state.original)
        of_search = (self._session.search or {}).get("told", "")
        text = "\n\n".join(filter(None, (opening["content"], of_search)))
        told = {**opening, "content": self._redact(text)}
        self._stream.emit(ev.UserMessage(message=told, origin="task"))

    def _original_source(self) -> bytes:
        return read_blob(self._session.folder, self._stream.state.original_files[self._session.task.candidate_file])

    def _note_what_is_shown(self, hands: WorkspaceTools) -> None:
        """Let the file tools know what the model saw: the candidate file if the opening has it whole, and earlier reads."""
        content = self._original_source()
        source = content.decode(errors="replace")
        if shows_whole(source) and self._redact(source).encode() == content:
            hands.files.saw(self._session.task.candidate_file, content)
        for path, when in files_seen(read_events(self._session.folder)).items():
            hands.files.saw_before(path, when)

    def _notice(self, text: str) -> None:
        self._stream.emit(ev.UserMessage(message={"role": "user", "content": text}, origin="notice"))

    def _ready_model(self) -> Model:
        """Return the model, made once; it is told of every event, those of earlier engines first."""
        if self._model is None:
            model = make_model(self._session.settings, self._session.device)
            for stored in read_events(self._session.folder):
                model.observe(stored.event)
            self._stream.listeners.append(model.observe)
            self._model = model
        return self._model

    def _ready_tools(self) -> Sequence[Tool]:
        if not self._tools:
            isolation = best_isolation(self._session.settings.isolation or None)
            self._hands = workspace_tools(
                self._workspace,
                isolation,
                lambda plan: self._stream.emit(ev.Todo(items=plan)),
                self.permissions.rules.forbid_writing,
            )
            self._note_what_is_shown(self._hands)
            self._stream.listeners.append(self._ahead.observe)
            own = [profile_tool(self.judging), check_tool(self.judging, self._workspace, self._stream)]
            self._tools = [
                *self._hands,
                *own,
                *self._closer_looks(),
                recall_tool(self._session.folder),
                *([skill_tool(self._skills)] if self._skills.all else []),
            ]
        return self._tools

    def _judge_ahead(self, files: Mapping[str, bytes]) -> None:
        if self.permissions.lets("Check"):
            self.judging.judge_ahead(files)

    def _closer_looks(self) -> list[Tool]:
        """Return the tools that look at kernels in ways that are no verdict, as far as this device has them."""
        on_gpu = self._session.device == "cuda"
        tools = [tool(self.judging, self._workspace) for tool in (sanitize_tool, sweep_tool, ablate_tool)]
        return [*([ncu_tool(self.judging, self._workspace, self._session.folder / "ncu")] if on_gpu else []), *tools]

    def _on_judge_fault(self, error: WarpsmithError) -> None:
        reason = EndReason.TASK_UNUSABLE if isinstance(error, TaskError) else EndReason.ENVIRONMENT
        if not self.busy:
            self._tell(error)
        elif self._ended is None:  # the best's last measurement does not change why a run ended, and tells it itself
            self.stop(Ended(reason, str(error)))

    def _tell(self, error: WarpsmithError) -> None:
        what, where, next_step = map(self._redact, (error.what, error.where, error.next_step))
        self._stream.emit_anyway(ev.ErrorEvent(what=what, where=where, next_step=next_step))


def _unanswered(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the messages after the model's last answer, latest first."""
    return itertools.takewhile(lambda message: message["role"] != "assistant", reversed(messages))
