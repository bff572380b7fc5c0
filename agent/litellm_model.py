"""A language model behind LiteLLM: the only module that knows it.

Importing LiteLLM takes seconds, so it happens in a thread that starts with the engine and is awaited only when the first
question is asked. Its own retries are off: what failed, and whether to ask again, is the loop's to see.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Sequence
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any

from agent.events import Event
from agent.model import Answer, ContextTooLong, Messages, ModelRefused, ModelRetryable, OnPiece, Piece
from sandbox.errors import WarpsmithError

SILENCE_SECONDS = 300.0
"""How long a provider may send nothing before the connection counts as lost. Models that think long stay silent long."""

_TOO_LONG = re.compile(
    r"context.{0,12}(length|window)|prompt is too long|too many (input )?tokens|maximum context", re.I
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing|credit balance|exceeded your current quota", re.I)
_SET_KEY = "Set the provider's API key in the environment, then run again."
_NO_KEY = re.compile(r"missing credentials|api[_ ]?key", re.I)
_NO_SERVER = re.compile(r"^connection error|cannot connect to host|connection refused", re.I)
_WRAPPING = re.compile(r"^(litellm\.\w+: |\w+(Error|Exception|Timeout)( Error)?( -|:) )+")
_IMPORTING = threading.Lock()


class LiteLLMModel:
    """Asks the provider that a LiteLLM model name stands for.

    Args:
        name: Such as ``anthropic/claude-sonnet-4-5``. With ``api_base`` a bare name means an OpenAI-compatible server.
        api_base: Base URL of the server; empty for the provider's own.
    """

    def __init__(self, name: str, api_base: str = "") -> None:
        self.name = name
        self.api_base = api_base
        self._ready = threading.Event()
        threading.Thread(target=self._warm_up, name="import litellm", daemon=True).start()

    def _warm_up(self) -> None:
        try:
            import_litellm()
        finally:
            self._ready.set()

    @property
    def context_tokens(self) -> int | None:
        """The provider's published limit; null while LiteLLM is not imported, or for a server of one's own."""
        return self._card().get("max_input_tokens") if self._ready.is_set() and not self.api_base else None

    def observe(self, event: Event) -> None:
        """A provider sees only the messages."""

    async def answer(self, messages: Messages, tools: Messages, on_piece: OnPiece, /) -> Answer:
        """Ask once; see ``agent.model.Model``."""
        while not self._ready.is_set():  # polled, so that an engine told to end does not wait for a thread
            await asyncio.sleep(0.02)
        litellm = import_litellm()
        try:
            stream = await litellm.acompletion(**self._request(litellm, messages, tools))
            chunks = [chunk async for chunk in _shown(_unsilent(stream), on_piece)]
        except TimeoutError:
            raise ModelRetryable(f"{self.name} sent nothing for {SILENCE_SECONDS:.0f} seconds.") from None
        except litellm.exceptions.openai.OpenAIError as error:
            raise explain(litellm, self.name, error) from error
        return self._whole(litellm, chunks, messages)

    def _request(self, litellm: ModuleType, messages: Sequence[Any], tools: Sequence[Any]) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.name,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "timeout": SILENCE_SECONDS,
            "num_retries": 0,
            "max_retries": 0,
        }
        if tools:
            request["tools"] = list(tools)
        if self.api_base:
            request |= self._own_server(litellm)
        if self.name.startswith("hosted_vllm/"):
            request |= {"logprobs": True, "extra_body": {"return_token_ids": True}}
        return request

    def _own_server(self, litellm: ModuleType) -> dict[str, Any]:
        """Return what names a server of one's own; it is spoken to as OpenAI unless told otherwise, and may want no key."""
        prefix = self.name.partition("/")[0]
        provider = prefix if "/" in self.name and prefix in litellm.provider_list else "openai"
        model = self.name if prefix == provider else f"{provider}/{self.name}"
        key = os.environ.get(f"{provider.upper()}_API_KEY") or "none"
        return {"model": model, "base_url": self.api_base, "api_key": key}

    def _whole(self, litellm: ModuleType, chunks: list[Any], messages: Sequence[Any]) -> Answer:
        built = litellm.stream_chunk_builder(chunks, messages=list(messages))
        if built is None or not built.choices:
            raise ModelRetryable(f"{self.name} closed the stream without an answer.")
        choice = built.choices[0]
        usage = built.usage.model_dump() if getattr(built, "usage", None) else {}
        choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
        priced = not self.api_base and "input_cost_per_token" in self._card()
        return Answer(
            message=_message(choice.message),
            finish_reason=choice.finish_reason or "stop",
            model=built.model or self.name,
            usage={key: value for key, value in usage.items() if isinstance(value, int)},
            reasoning=getattr(choice.message, "reasoning_content", None) or "",
            cost_usd=litellm.completion_cost(built, model=self.name) if priced else None,
            token_ids=[token for c in choices for token in getattr(c, "token_ids", None) or ()] or None,
            logprobs=[token.logprob for c in choices for token in _logprobs(c)] or None,
        )

    def _card(self) -> dict[str, Any]:
        """Return what LiteLLM's price list says of the model."""
        costs = import_litellm().model_cost
        card: dict[str, Any] = costs.get(self.name) or costs.get(self.name.partition("/")[2]) or {}
        return card


def import_litellm() -> ModuleType:
    """Import LiteLLM: with its bundled price list instead of a download, no telemetry, nothing printed."""
    with _IMPORTING:
        return _imported()


@functools.cache
def _imported() -> ModuleType:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    practice = [{"role": "user", "content": ""}]  # the first question loads a second's worth of modules more
    list(litellm.completion("openai/none", practice, stream=True, mock_response="", api_key="none"))
    return litellm


async def _unsilent(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield a stream's chunks; ``TimeoutError`` when none came for too long."""
    chunks = aiter(stream)
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        yield chunk


async def _shown(chunks: AsyncIterator[Any], on_piece: OnPiece) -> AsyncIterator[Any]:
    """Pass chunks on, telling what they hold piece by piece."""
    names: dict[int, str] = {}
    async for chunk in chunks:
        yield chunk
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        if reasoning := getattr(delta, "reasoning_content", None):
            on_piece(Piece("reasoning", reasoning))
        if delta.content:
            on_piece(Piece("text", delta.content))
        for call in delta.tool_calls or ():
            name = names[call.index] = names.get(call.index) or call.function.name or ""
            on_piece(Piece("tool", call.function.arguments or "", call.index, name))


def _message(message: Any) -> dict[str, Any]:
    """Return the assistant message as it goes back; what a provider insists on getting back stays in it."""
    plain: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name or "", "arguments": call.function.arguments or ""},
            }
            for call in message.tool_calls
        ]
    if thinking := getattr(message, "thinking_blocks", None):
        plain["thinking_blocks"] = thinking
    return plain


def _logprobs(choice: Any) -> Sequence[Any]:
    logprobs = getattr(choice, "logprobs", None)
    return getattr(logprobs, "content", None) or ()


def explain(litellm: ModuleType, name: str, error: Exception) -> WarpsmithError:
    """Return a provider's error as one of ours, in its own words."""
    status = getattr(error, "status_code", None) or 0
    said = _WRAPPING.sub("", str(error)).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    said = said if said.endswith((".", "!", "?")) else f"{said}."
    if isinstance(error, litellm.exceptions.ContextWindowExceededError) or status == 413 or _TOO_LONG.search(said):
        return ContextTooLong(f"The conversation is too long for {name}: {said}")
    if status == 500 and _NO_KEY.search(said):  # LiteLLM's own number: nobody was asked
        return ModelRefused(f"{name} has no key: {said}", next_step=_SET_KEY)
    reached = status and not (status == 500 and _NO_SERVER.search(said))
    what = f"{name} answered {status}: {said}" if reached else f"{name} cannot be reached: {said}"
    if status == 429 and _NO_CREDIT.search(said):
        return ModelRefused(what, next_step="Check the account's credit, or choose another model with --model.")
    if status in (408, 409, 425, 429) or status >= 500 or not status:
        return ModelRetryable(what, _wait_seconds(error))
    if status in (401, 403):
        return ModelRefused(what, next_step=_SET_KEY)
    return ModelRefused(what, next_step="Check the settings 'model' and 'api_base'.")


def _wait_seconds(error: Exception) -> float | None:
    """Return what Retry-After asks for, given in seconds or as a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
