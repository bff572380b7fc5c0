"""What each tool does: the same judge, tools and words as Warpsmith's own agent has, for a client's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent import events as ev
from agent.mcp import schemas
from agent.mcp.desk import Desk
from agent.mcp.opened import OpenedTask
from agent.mcp.ranking import rank_script
from agent.prompt import kernel_rules
from agent.redact import Redactor
from agent.skills import Skills
from agent.state import Judged
from agent.tools.arguments import mismatch, settled
from agent.tools.base import ToolProblem, clipped
from agent.tools.skill import skill_tool
from sandbox.asked import asked_task, inputs_file
from sandbox.errors import UsageError, WarpsmithError
from sandbox.machine.devices import resolve_device
from sandbox.target import parse_dynamic
from sandbox.task import TaskSpec

T = TypeVar("T")
Say = Callable[[str], None]
Arguments = dict[str, Any]
_LANDS = (
    "When it is correct and fast, tell the developer to look at it and land it with: warpsmith sessions resume {task} "
    "(after close_task, or once this server has ended). Nothing lands in the project otherwise."
)


@dataclass(frozen=True)
class Answer:
    """What a call came to: text for a model, and where a tool has an output schema its data, which holds the text too."""

    ok: bool
    text: str
    data: dict[str, Any] | None = None


class ClientTools:
    """Answers a client's calls.

    Args:
        desk: Its tasks.
        skills: What the skill tool reads.
        on_gpu: Whether kernels can be looked at with Nsight Compute here.
    """

    def __init__(self, desk: Desk, skills: Skills, *, on_gpu: bool) -> None:
        self.cards = tuple(card for card in schemas.CARDS if on_gpu or card is not schemas.NCU)
        self._desk = desk
        self._skill = skill_tool(skills)
        self._redact = Redactor(os.environ)
        self._main = skills.main.name if skills.main else ""

    async def call(self, name: str, arguments: Mapping[str, Any], client: str, say: Say) -> Answer:
        """Do what was called; what went wrong is an answer that is not ok, with what, where and the next step.

        No answer holds a secret: a client's model reads it, and it goes to that model's provider.

        Args:
            name: The tool.
            arguments: As the client gave them; checked here.
            client: Who asks, for the session's record.
            say: Told what is being done.
        """
        answer = await self._answer(name, arguments, client, say)
        return Answer(answer.ok, self._redact(answer.text), self._redact.data(answer.data))

    async def _answer(self, name: str, arguments: Mapping[str, Any], client: str, say: Say) -> Answer:
        card = next((card for card in self.cards if card.name == name), None)
        if card is None:
            return Answer(False, f"There is no tool '{name}'. There are: {', '.join(c.name for c in self.cards)}.")
        given: Arguments = settled(dict(arguments), card.parameters)
        if problem := mismatch(given, card.parameters):
            return Answer(False, f"{name} was not run: {problem}")
        try:
            if card in schemas.ON_CANDIDATE:
                return await self._ask(card, given, client, say)
            match name:
                case "open_task":
                    return await self._open(given, client, say)
                case "close_task":
                    closed = await self._desk.close(given["task"])
                    return Answer(True, "It is closed." if closed else "It was not open.")
                case "hotspots":
                    return await self._rank(given, say)
                case _:
                    read = await self._skill.run({"name": self._main, **given})
                    return Answer(read.ok, read.text)
        except ToolProblem as problem_of_call:
            return Answer(False, str(problem_of_call))
        except WarpsmithError as error:
            return Answer(False, explained(error))

    async def verdict(self, task: str, attempt: int, client: str) -> dict[str, Any]:
        """Return a whole verdict as JSON data.

        Raises:
            UsageError: There is no such task or attempt.
        """
        opened = await self._desk.find(task, client)
        judged = opened.stream.state.attempt(attempt)
        if judged is None:
            raise UsageError(f"Task {task} has no attempt {attempt}.", next_step="check tells an attempt's number.")
        return judged.verdict.to_json()

    async def _open(self, given: Arguments, client: str, say: Say) -> Answer:
        spec = await asyncio.to_thread(self._spec, given)
        task = await self._desk.open(spec, client)
        handle = task.session.id
        try:
            async with task.busy:
                await _narrated(task, say, task.ready())
        except (WarpsmithError, asyncio.CancelledError):
            await self._desk.discard(handle)
            raise
        text = "\n\n".join([_where(task), kernel_rules(spec), _LANDS.format(task=handle)])
        facts = {
            "task": handle,
            "workspace": str(task.workspace.folder),
            "candidate_file": spec.candidate_file,
            "candidate_class": spec.candidate_class,
            "kernel_suffix": spec.kernel_suffix,
            "device": spec.device,
        }
        return Answer(True, text, {"text": text, **facts})

    def _spec(self, given: Arguments) -> TaskSpec:
        settings = self._desk.settings
        target = given.get("target", "")
        for named in filter(None, (target, target.partition(":")[0])):  # before it is read
            if named.endswith(".py") or Path(named).exists():
                self._desk.permitted(Path(named))
        kept = ("init", "factory", "dtype", "precision", "policy", "judged_by")
        return asked_task(
            given.get("target"),
            given.get("capture", ""),
            python=settings.python,
            device=resolve_device(settings.device),
            training=given.get("train"),
            gradients=given.get("gradients"),
            inputs=inputs_file(given.get("inputs", "")),
            dynamic=tuple(parse_dynamic(text) for text in given.get("dynamic", ())),
            **{name: given[name] for name in kept if name in given},
        )

    async def _ask(self, card: schemas.ToolCard, given: Arguments, client: str, say: Say) -> Answer:
        """Ask the judge about a task's workspace, after the client's files were put there."""
        task = await self._desk.find(given.pop("task"), client)
        async with task.busy:
            if "folder" in given:
                task.copy(self._desk.permitted(Path(given.pop("folder"))))
            task.write(given.pop("files", {}))
            await _narrated(task, say, task.ready())
            name = card.name
            if name == "profile" and given.pop("of", "original") == "candidate":
                name, given = "check", {"tier": "full"}
            result = await _narrated(task, say, task.tools[name].run(given))
            judged = task.judged_now(given.get("tier", "quick")) if card is schemas.CHECK else None
        if judged is None:
            return Answer(result.ok or name == "check", result.text)
        return Answer(True, result.text, _verdict(task.session.id, judged, result.text))

    async def _rank(self, given: Arguments, say: Say) -> Answer:
        self._desk.permitted(Path.cwd())
        seconds, measure = given.get("seconds", 60.0), given.get("measure", 0)
        text = await rank_script(self._desk.settings, given["command"], seconds=seconds, measure=measure, say=say)
        return Answer(True, clipped(text).text)


def explained(error: WarpsmithError) -> str:
    """Return an error as a client's model reads it: what, where, next step."""
    lines = [
        error.what,
        f"where: {error.where}" if error.where else "",
        f"next: {error.next_step}" * bool(error.next_step),
    ]
    return "\n".join(filter(None, lines))


async def _narrated(task: OpenedTask, say: Say, work: Awaitable[T]) -> T:
    """Await the judge's work and pass on its stages."""

    def pass_on(event: ev.Event) -> None:
        if isinstance(event, ev.StageEvent):
            say(f"{event.part}: {event.text}")

    stop = task.listen(pass_on)
    try:
        return await work
    finally:
        stop()


def _where(task: OpenedTask) -> str:
    spec = task.session.task
    kernels = f"kernels/NAME{spec.kernel_suffix}"
    reference = " `model.py` there is the original, to be read only." if spec.kind == "kernelbench" else ""
    return (
        f"Task {task.session.id}: {spec.id} on {spec.device}, accepted by the judge.\n"
        f"Workspace: {task.workspace.folder}\n"
        f"Edit there: `{spec.candidate_file}` (class `{spec.candidate_class}` keeps its name, its constructor and its "
        f"parameters) and `{kernels}`.{reference} Where you may not write there, hand the files to check instead."
    )


def _verdict(task: str, judged: Judged, text: str) -> dict[str, Any]:
    verdict, profile = judged.verdict, judged.verdict.profile
    return {
        "text": text,
        "task": task,
        "attempt": judged.attempt,
        "tier": verdict.tier,
        "correct": verdict.correct,
        "reward": verdict.reward,
        "reason": verdict.reason,
        "device_us": (profile and profile.device_us) or None,
        "latency_us": (profile and profile.latency_us) or None,
        "speedup": {name: vars(each) for name, each in profile.speedup.items()} if profile else {},
        "verdict": f"verdict://{task}/{judged.attempt}",
    }
