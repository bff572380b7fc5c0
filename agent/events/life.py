"""The life of a session: how it and its runs begin and end, and what goes wrong."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from agent.events.base import Event, named


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


@named("session_started")
class SessionStarted(Event):
    """First event of every session. ``task`` is ``TaskSpec.to_json()``; ``files`` maps workspace paths to blob hashes."""

    task: dict[str, Any]
    model: str
    device: str
    versions: dict[str, str]
    files: dict[str, str]


@named("session_resumed")
class SessionResumed(Event):
    """The engine was started again on this session. What was lost with the old one (the shell) is in ``note``."""

    note: str = ""


@named("run_started")
class RunStarted(Event):
    """The loop began to ask the model. ``turn_limit`` counts model answers of this run.

    ``budget`` holds the run's other limits, where there are any: ``tokens``, ``cost_usd``, ``minutes``.
    """

    turn_limit: int
    budget: dict[str, float] = field(default_factory=dict)


@named("run_ended")
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


@named("error")
class ErrorEvent(Event):
    """Something went wrong that the developer should see: what, where, next step."""

    what: str
    where: str = ""
    next_step: str = ""
