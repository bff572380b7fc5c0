"""The conversation with the model, and the calls of its tools."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from agent.events.base import Event, named


@named("conversation_started")
class ConversationStarted(Event):
    """The system message and the tool schemas, exactly as they are sent."""

    message: dict[str, Any]
    tools: list[dict[str, Any]]


@named("user_message")
class UserMessage(Event):
    """A message in the user's role: the task's opening, the developer's steering, or a notice of the engine's.

    Of a contrast ``attempts`` are the variants that it shows, the faster one last.
    """

    message: dict[str, Any]
    origin: Literal["task", "steer", "decision", "notice", "contrast"] = "task"
    attempts: list[int] = field(default_factory=list)


@named("compacted")
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


@named("model_turn")
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


@named("model_retry")
class ModelRetry(Event):
    """The provider failed and is asked again in ``wait_seconds``."""

    turn: int
    error: str
    wait_seconds: float


@named("tool_started")
class ToolStarted(Event):
    """A tool call began. ``arguments`` are parsed, or ``{"_raw": text}`` where they could not be."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@named("tool_finished")
class ToolFinished(Event):
    """A tool call ended. ``message`` is what the model sees; ``full`` is the blob of the unclipped output, if clipped."""

    call_id: str
    name: str
    ok: bool
    message: dict[str, Any]
    seconds: float
    full: str | None = None


@named("todo")
class Todo(Event):
    """The agent's plan: ``items`` of ``{"content", "status"}``, status being pending, in_progress or completed."""

    items: list[dict[str, str]]
