"""The typed events a session is made of, and how one becomes a line of ``events.jsonl``.

A session is an append-only stream of these. The screen draws it, a crash resumes from it, exporters convert it and the
trainer reads it; live and replayed sessions go through the same code. Events of class :class:`Live` go to the screen and
are never stored: the finished thing they announce is.

The conversation with the model is a fold over the stream: ``conversation_started`` gives the system message and the
tools, then every ``user_message``, ``model_turn`` and ``tool_finished`` appends its message, in order, and ``compacted``
replaces all of it. So the prompt of any turn can be made again from the stream, byte by byte.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, dataclass_transform

FORMAT = "warpsmith.session/1"


class EndReason(StrEnum):
    """Why a session's run ended. Each way it can end has exactly one."""

    FINISHED = "finished"
    """The agent said it was done."""
    TURN_LIMIT = "turn_limit"
    """The turn budget was used up."""
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - tokens of language
    """The budget of tokens was used up."""
    COST_LIMIT = "cost_limit"
    """The budget of money was used up."""
    TIME_LIMIT = "time_limit"
    """The time was over."""
    INTERRUPTED = "interrupted"
    """The developer stopped the run."""
    CONTEXT_LENGTH = "context_length"
    """The model's context was full."""
    MODEL_ERROR = "model_error"
    """The model's provider refused, or could not be reached after every retry."""
    MODEL_SILENT = "model_silent"
    """The model kept answering with neither text nor a tool call it could use."""
    REPLAY_DIVERGED = "replay_diverged"
    """Today's results no longer fit the recording that is replayed."""
    TASK_UNUSABLE = "task_unusable"
    """The task raises, is not deterministic, or has trivial answers."""
    ENVIRONMENT = "environment"
    """This machine is at fault: no compiler, no GPU, a full disk."""
    INTERNAL_ERROR = "internal_error"
    """A fault of ours."""


class Event:
    """Base of all events. ``type`` is the name it has on disk."""

    type: ClassVar[str]


class Live(Event):
    """Base of the events that are shown and never stored."""


_TYPES: dict[str, type[Event]] = {}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _event(name: str) -> Any:
    """Make a class a frozen event of that name."""

    def register(cls: type) -> Any:
        record: Any = dataclass(frozen=True, kw_only=True)(cls)
        record.type = name
        _TYPES[name] = record
        return record

    return register


# --- life of the session ------------------------------------------------------------------------------------------


@_event("session_started")
class SessionStarted(Event):
    """First event of every session. ``task`` is ``TaskSpec.to_json()``; ``files`` maps workspace paths to blob hashes."""

    task: dict[str, Any]
    model: str
    device: str
    versions: dict[str, str]
    files: dict[str, str]


@_event("session_resumed")
class SessionResumed(Event):
    """The engine was started again on this session. What was lost with the old one (the shell) is in ``note``."""

    note: str = ""


@_event("run_started")
class RunStarted(Event):
    """The loop began to ask the model. ``turn_limit`` counts model answers of this run.

    ``budget`` holds the run's other limits, where there are any: ``tokens``, ``cost_usd``, ``minutes``.
    """

    turn_limit: int
    budget: dict[str, float] = field(default_factory=dict)


@_event("run_ended")
class RunEnded(Event):
    """The loop stopped, for the named reason; ``best_attempt`` is the fastest correct one so far, or null.

    ``best_reward`` is its reward, and ``best_speedup`` its ``profile.speedup``: by baseline, ``ratio``, ``low``, ``high``.
    ``minutes`` is what the run took of its time, without open questions; null where the engine was killed. ``workspace`` says
    what the workspace holds, where that is not the best attempt.
    """

    reason: EndReason
    detail: str = ""
    best_attempt: int | None = None
    best_reward: int | None = None
    best_speedup: dict[str, dict[str, float]] | None = None
    minutes: float | None = None
    workspace: str = ""


# --- conversation --------------------------------------------------------------------------------------------------


@_event("conversation_started")
class ConversationStarted(Event):
    """The system message and the tool schemas, exactly as they are sent."""

    message: dict[str, Any]
    tools: list[dict[str, Any]]


@_event("user_message")
class UserMessage(Event):
    """A message in the user's role: the task's opening, the developer's steering, or a notice of the engine's.

    Of a contrast ``attempts`` are the variants that it shows, the faster one last.
    """

    message: dict[str, Any]
    origin: Literal["task", "steer", "decision", "notice", "contrast"] = "task"
    attempts: list[int] = field(default_factory=list)


@_event("compacted")
class Compacted(Event):
    """The conversation got too long: ``messages`` take its place, the system message first, as they are sent from then on.

    Attributes:
        tokens_before: How long the request was.
        tokens_after: About how long it is now.
        refused: Whether the provider had called it too long.
    """

    messages: list[dict[str, Any]]
    tokens_before: int
    tokens_after: int
    refused: bool = False


@_event("model_turn")
class ModelTurn(Event):
    """One answer of the model, as it goes back into the conversation.

    Attributes:
        message: The assistant message (``role``, ``content``, ``tool_calls`` in OpenAI form, arguments as strings).
        prompt_sha256: Hash of the exact request (messages and tools) it answered.
        usage: Token counts as the provider gave them, and in our vocabulary (``agent.usage``).
        finish_reason: ``stop``, ``tool_calls``, ``length`` or ``content_filter``.
        token_ids, logprobs: Of the answer, one to one, where the server gives them.
        prompt_tokens_kept, prompt_token_ids: The prompt's tokens: how many of the last stored prompt and answer it begins
            with, and those that come after (``agent.tokens.whole_prompts`` puts them together); null where not given.
        tokens_note: Why ids or log-probabilities that the server gave are not kept.
        sampling: What the request said of sampling, as it was sent: ``temperature``, ``top_p``, ``seed``,
            ``max_output_tokens``, ``reasoning``; what is missing was the provider's default.
        identity: Who answered: ``provider``, and what the server tells of its weights (``agent.server_card``).
        parse_errors: Calls that could not be understood: ``{"call_id", "tool", "raw", "problem"}``.
    """

    turn: int
    message: dict[str, Any]
    prompt_sha256: str
    finish_reason: str
    model: str
    seconds: float
    usage: dict[str, int] = field(default_factory=dict)
    reasoning: str = ""
    cost_usd: float | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    prompt_tokens_kept: int = 0
    prompt_token_ids: list[int] | None = None
    tokens_note: str = ""
    sampling: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    parse_errors: list[dict[str, str]] = field(default_factory=list)


@_event("model_retry")
class ModelRetry(Event):
    """The provider failed and is asked again in ``wait_seconds``."""

    turn: int
    error: str
    wait_seconds: float


@_event("tool_started")
class ToolStarted(Event):
    """A tool call began. ``arguments`` are parsed, or ``{"_raw": text}`` where they could not be."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@_event("tool_finished")
class ToolFinished(Event):
    """A tool call ended. ``message`` is what the model sees; ``full`` is the blob of the unclipped output, if clipped."""

    call_id: str
    name: str
    ok: bool
    message: dict[str, Any]
    seconds: float
    full: str | None = None


@_event("todo")
class Todo(Event):
    """The agent's plan: ``items`` of ``{"content", "status"}``, status being pending, in_progress or completed."""

    items: list[dict[str, str]]


# --- judging -------------------------------------------------------------------------------------------------------


@_event("stage")
class StageEvent(Event):
    """What the judge is doing or waiting for right now.

    ``partial`` holds what is known so far: of a profile ``placement``, ``of``, ``device_us`` (or ``latency_us``) and
    ``speedup`` (ratios by baseline); while waiting for the device ``waiting_for``, the process that has it.
    """

    part: str
    text: str
    partial: dict[str, Any] = field(default_factory=dict)


@_event("original_profiled")
class OriginalProfiled(Event):
    """What the judge measured of the reference (``OriginalProfile.to_json()``)."""

    profile: dict[str, Any]


@_event("attempt")
class Attempt(Event):
    """A state of the workspace that was judged. ``files`` maps its paths to blob hashes; attempts count from 1."""

    attempt: int
    files: dict[str, str]
    verdict: dict[str, Any]
    call_id: str | None = None


@_event("judged_ahead")
class JudgedAhead(Event):
    """A quick verdict was begun while the model thought, and a Check took it, or nobody did.

    Attributes:
        seconds: How long the judge had worked on it when the Check asked, which waited so much less; or in vain.
        taken: Whether it became the attempt that follows.
    """

    seconds: float
    taken: bool


# --- the developer's decisions -------------------------------------------------------------------------------------


@_event("hunk_accepted")
class HunkAccepted(Event):
    """The developer took this hunk (``hunk`` is its id; for a kernel file, the whole file)."""

    attempt: int
    file: str
    hunk: str


@_event("hunk_rejected")
class HunkRejected(Event):
    """The developer refused this hunk, and why, in their words."""

    attempt: int
    file: str
    hunk: str
    reason: str


@_event("steered")
class Steered(Event):
    """The developer told the agent something; ``skill`` is the skill they gave with it, as the agent is told it."""

    text: str
    skill: str = ""


@_event("interrupted")
class Interrupted(Event):
    """The developer stopped the run."""


@_event("landed")
class Landed(Event):
    """An accepted state was written into the developer's tree.

    Attributes:
        files: One of ``{"path", "before", "after"}`` each; blob hashes, ``before`` null for a new file.
        commit: The commit it is, where it was wanted as one.
        notes: What a commit of the developer's own would have done and this one did not.
    """

    landing: int
    attempt: int
    files: list[dict[str, Any]]
    partial: bool
    verdict: dict[str, Any]
    commit: str = ""
    notes: list[str] = field(default_factory=list)


@_event("landing_refused")
class LandingRefusedEvent(Event):
    """A landing or an undo was not carried out; nothing was written."""

    what: str
    where: str = ""
    next_step: str = ""


@_event("undone")
class Undone(Event):
    """A landing was taken back, as far as it could be.

    Attributes:
        files: What became of each file: ``{"path", "outcome"}``.
        changes: What was written to take it back, in the form of ``Landed.files``; its inverse is the redo.
        commit: The commit that takes the landing's back, if one was made.
        notes: Why none was, or what that commit left out.
    """

    landing: int
    files: list[dict[str, str]]
    changes: list[dict[str, Any]] = field(default_factory=list)
    commit: str = ""
    notes: list[str] = field(default_factory=list)


@_event("error")
class ErrorEvent(Event):
    """Something went wrong that the developer should see: what, where, next step."""

    what: str
    where: str = ""
    next_step: str = ""


# --- permissions ---------------------------------------------------------------------------------------------------


@_event("permission_asked")
class PermissionAsked(Event):
    """A tool call waits for the developer's word. A session that is resumed asks anew.

    Attributes:
        what: The literal command, or one line a file with its added and removed lines.
        why: The agent's last sentence before the call.
        choices: ``{"scope", "text", "pattern"}`` each; ``scope`` is ``once``, ``session``, ``project`` or ``reject``, ``text``
            says what is allowed by it, and ``pattern`` is the rule that would be kept, empty where none is.
        detail: The whole change as a unified diff, for a call that changes a file.
    """

    call_id: str
    tool: str
    what: str
    why: str
    choices: list[dict[str, str]]
    detail: str = ""


@_event("permission_answered")
class PermissionAnswered(Event):
    """The developer answered. ``scope`` and ``pattern`` are those of the choice taken; ``reason`` why it was rejected."""

    call_id: str
    decision: Literal["allow", "reject"]
    scope: str
    pattern: str = ""
    reason: str = ""


@_event("mode_changed")
class ModeChanged(Event):
    """The developer chose another permission mode: ``read-only``, ``ask`` or ``auto``."""

    mode: str


# --- live only -----------------------------------------------------------------------------------------------------


@_event("delta")
class Delta(Live):
    """A piece of the answer as it streams. ``call`` numbers the tool call it belongs to, or is null for text."""

    turn: int
    kind: Literal["text", "reasoning", "tool"]
    text: str
    call: int | None = None
    name: str = ""


@_event("engine_ready")
class EngineReady(Live):
    """The engine has read the session and takes commands. ``running`` tells whether the loop runs already."""

    session: str
    folder: str


def to_json(event: Event, n: int | None = None, time: float | None = None) -> dict[str, Any]:
    """Return the event as one JSON object, with its number and Unix time where it has them."""
    head: dict[str, Any] = {} if n is None else {"n": n}
    if time is not None:
        head["time"] = time
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}  # type: ignore[arg-type]
    return {**head, "type": event.type, **fields}


def from_json(data: dict[str, Any]) -> Event | None:
    """Rebuild an event, ignoring keys it does not know; null for a type this version does not know."""
    record = _TYPES.get(data["type"])
    if record is None:
        return None
    names = record.__dataclass_fields__  # type: ignore[attr-defined]
    return record(**{key: value for key, value in data.items() if key in names})
