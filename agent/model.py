"""What the loop needs of a language model: messages in, one streamed answer out.

``agent.litellm_model`` asks a provider, ``agent.replay`` plays a recording. How a question failed is told by the
exception, so that the loop knows whether to ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.events import EndReason, Event
from agent.settings import Settings
from sandbox.errors import ModelUnavailable, UsageError, WarpsmithError

REPLAYED = "replay:"
"""How the names of models begin that play a recording."""
DeltaKind = Literal["text", "reasoning", "tool"]


@dataclass(frozen=True)
class Piece:
    """A piece of an answer as it streams; ``call`` numbers the tool call it belongs to, ``name`` is the tool's."""

    kind: DeltaKind
    text: str
    call: int | None = None
    name: str = ""


OnPiece = Callable[[Piece], None]
Messages = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """One whole answer.

    Attributes:
        message: As it goes back into the conversation: ``role``, ``content`` and, if there are any, ``tool_calls``.
        usage: Tokens as the provider counted them, with the keys of ``agent.usage.counted``; empty if it did not.
        cost_usd: Null where no price is known; what was cached is priced as such.
        token_ids, logprobs: Where the server gives them, and they agree with what it counted.
        sampling, identity, prompt_tokens_kept, prompt_token_ids, tokens_note: See ``agent.events.ModelTurn``.
    """

    message: dict[str, Any]
    finish_reason: str
    model: str
    usage: dict[str, int] = field(default_factory=dict)
    reasoning: str = ""
    cost_usd: float | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    prompt_tokens_kept: int = 0
    prompt_token_ids: list[int] | None = None
    tokens_note: str = ""


@dataclass(frozen=True)
class Sampling:
    """How answers are sampled; what is null or empty is left to the provider. See ``Settings``."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Sampling:
        """Return what the settings say."""
        return cls(**{f.name: getattr(settings, f.name) for f in fields(cls)})


DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True)
class Prices:
    """What a model costs, in dollars a million tokens, read and written; 0 and 0 for what the provider's price list says."""

    input_usd: float = 0.0
    output_usd: float = 0.0


LISTED = Prices()


class ModelRetryable(ModelUnavailable):
    """The provider failed in a way that may pass: overload, a dropped connection, a fault of its own.

    Args:
        wait_seconds: How long it asks to be left alone, or null.
    """

    def __init__(self, what: str, wait_seconds: float | None = None) -> None:
        super().__init__(what, next_step="Run again, or choose another model with --model.")
        self.wait_seconds = wait_seconds


class ModelRefused(ModelUnavailable):
    """Asking again will not help: no key, unknown model, a request it does not take."""


class ContextTooLong(WarpsmithError):
    """The conversation no longer fits the model's context."""


class RunStopped(Exception):
    """The run ends here, for a reason that only the model knows (a recording that no longer fits, or is over)."""

    def __init__(self, reason: EndReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Model(Protocol):
    """A language model, or something that answers like one."""

    @property
    def context_tokens(self) -> int | None:
        """Its context window in tokens, or null where it is not known."""

    async def answer(self, messages: Messages, tools: Messages, on_piece: OnPiece, /) -> Answer:
        """Answer once, calling ``on_piece`` with what streams.

        Raises:
            ModelRetryable, ModelRefused, ContextTooLong, RunStopped: See there.
        """

    async def priced(self) -> bool:
        """Return whether it is known what its answers cost."""

    def observe(self, event: Event) -> None:
        """Be told of an event of the session."""


def require_model(settings: Settings) -> None:
    """Refuse settings that name no model, or a recording that is not there.

    Raises:
        ModelUnavailable: None is named, or there is no such recording.
    """
    if not settings.model:
        raise ModelUnavailable(
            "No model is chosen.",
            where="setting 'model'",
            next_step="Name one with --model or WARPSMITH_MODEL: a LiteLLM model name, or replay:SESSION.",
        )
    if settings.model.startswith(REPLAYED):
        _recording(settings)


def _recording(settings: Settings) -> Path:
    from agent.replay import find_recording

    try:
        return find_recording(settings.model.removeprefix(REPLAYED), settings.home)
    except UsageError as error:
        raise ModelRefused(error.what, where=error.where, next_step=error.next_step) from error


def make_model(settings: Settings, device: str) -> Model:
    """Return the model that the settings name; ``device`` is the session's kind, ``cpu`` or ``cuda``.

    Raises:
        ModelUnavailable: None is named; or there is no such recording, or it is for the other kind of device.
    """
    if settings.model.startswith(REPLAYED):
        from agent.replay import ReplayModel

        return ReplayModel(_recording(settings), device, settings.replay_delay)
    require_model(settings)
    from agent.litellm_model import LiteLLMModel

    return LiteLLMModel(
        settings.model,
        settings.api_base,
        Sampling.of(settings),
        settings.context_tokens,
        Prices(settings.input_price_usd, settings.output_price_usd),
        settings.silence_seconds,
    )
