"""A language model behind LiteLLM: the only module that knows it.

Importing LiteLLM takes seconds, so it happens in a thread that starts with the engine and is awaited only when the first
question is asked. Its own retries are off: what failed, and whether to ask again, is the loop's to see.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any

from agent.assembly import Assembly
from agent.context.counting import estimate
from agent.events import Event, ModelTurn
from agent.model import (
    DEFAULT_SAMPLING,
    LISTED,
    Answer,
    ContextTooLong,
    Messages,
    ModelRefused,
    ModelRetryable,
    OnPiece,
    Prices,
    Sampling,
)
from agent.provider_errors import explain, fell_silent
from agent.routes import Route, route
from agent.server_card import ServerCard, read_card, told_of
from agent.settings import Settings
from agent.tokens import PromptTokens, doubts
from agent.usage import counted

_FOR_LEARNING = {"logprobs": True, "return_token_ids": True}
"""Asked of servers of one's own; one that refuses is not asked again."""
_SAMPLING = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "seed": ("seed",),
    "max_output_tokens": (
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
        "maxTokens",
        "num_predict",
    ),
    "reasoning": ("reasoning_effort", "reasoning", "thinking", "thinkingConfig", "think"),
}
"""What requests call the settings of sampling, in whichever dialect."""
_NESTED = ("generationConfig", "options", "inferenceConfig", "additionalModelRequestFields", "extra_body")
_IMPORTING = threading.Lock()


class LiteLLMModel:
    """Asks the provider that a LiteLLM model name stands for.

    Attributes:
        warm: The thread that makes ready to ask; ended, what a server tells of itself is known too.

    Args:
        name: Such as ``anthropic/claude-sonnet-4-5``.
        api_base: Address of a server of one's own, of the kind the name's prefix says; empty for the provider's. A bare
            name means a server that speaks OpenAI's protocol.
        sampling: How answers are sampled.
        context_tokens: The session's budget, for servers that must be told how much they will read.
        prices: What it costs.
        silence_seconds: How long it may send nothing.
    """

    def __init__(
        self,
        name: str,
        api_base: str = "",
        sampling: Sampling = DEFAULT_SAMPLING,
        context_tokens: int = 131_072,
        prices: Prices = LISTED,
        silence_seconds: float = Settings.silence_seconds,
    ) -> None:
        self.name = name
        self.api_base = api_base
        self._sampling = sampling
        self._budget = context_tokens
        self._prices = prices
        self._silence = silence_seconds
        self._card = ServerCard()
        self._prompts = PromptTokens()
        self._for_learning: bool | None = None
        self._ready = threading.Event()
        self.warm = threading.Thread(target=self._warm_up, name="import litellm", daemon=True)
        self.warm.start()

    def _warm_up(self) -> None:
        try:
            litellm = import_litellm()
        finally:
            self._ready.set()
        with contextlib.suppress(ModelRefused):  # told when it is asked
            if (to := route(litellm, self.name, self.api_base)).own:
                self._card = read_card(to.base, to.key, to.model.partition("/")[2])

    @property
    def context_tokens(self) -> int | None:
        """The provider's published limit, or what a server of one's own says; null where not known (yet)."""
        if self._card.context_tokens or self.api_base or not self._ready.is_set():
            return self._card.context_tokens
        return self._listed().get("max_input_tokens")

    def observe(self, event: Event) -> None:
        """Follow the stored answers, whose token ids the next prompt is told by."""
        if isinstance(event, ModelTurn):
            self._prompts.lengthen(event)

    async def answer(self, messages: Messages, tools: Messages, on_piece: OnPiece, /) -> Answer:
        """Ask once; see ``agent.model.Model``."""
        litellm = await self._imported()
        to = route(litellm, self.name, self.api_base)
        request = to.request(messages, self._sampling, self._budget) | {"stream": True, "timeout": self._silence}
        request |= {"stream_options": {"include_usage": True}, "num_retries": 0, "max_retries": 0}
        if tools:
            request["tools"] = list(tools)
        try:
            return await self._asked(litellm, to, request, on_piece)
        except (TimeoutError, litellm.exceptions.openai.OpenAIError) as error:
            if fell_silent(litellm, error):
                raise ModelRetryable(f"{self.name} sent nothing for {self._silence:g} seconds.") from error
            raise explain(litellm, self.name, error) from error

    async def priced(self) -> bool:
        """Return whether its price is set or listed; a server of one's own has none in the list."""
        return self._price(route(await self._imported(), self.name, self.api_base)) is not None

    async def _imported(self) -> ModuleType:
        while not self._ready.is_set():  # polled, so that an engine told to end does not wait for a thread
            await asyncio.sleep(0.02)
        return import_litellm()

    async def _asked(self, litellm: ModuleType, to: Route, request: dict[str, Any], on_piece: OnPiece) -> Answer:
        """Ask; of a server of one's own what learning needs too, and without that if it refuses the first such request."""
        if to.own and self._for_learning is not False:
            more = {**request, "extra_body": {**request.get("extra_body", {}), **_FOR_LEARNING}}
            try:
                answer = await self._streamed(litellm, to, more, on_piece)
            except (litellm.BadRequestError, litellm.UnprocessableEntityError) as error:
                if self._for_learning or isinstance(explain(litellm, self.name, error), ContextTooLong):
                    raise
            else:
                self._for_learning = True
                return answer
        answer = await self._streamed(litellm, to, request, on_piece)
        self._for_learning = False
        return answer

    async def _streamed(self, litellm: ModuleType, to: Route, request: dict[str, Any], on_piece: OnPiece) -> Answer:
        stream = await litellm.acompletion(**request)
        sent = _sampling_in(stream.logging_obj.model_call_details.get("additional_args", {}).get("complete_input_dict"))
        assembly, usage, model = Assembly(), None, ""
        async for chunk in _unsilent(stream, self._silence):
            for piece in assembly.add(chunk):
                on_piece(piece)
            usage = getattr(chunk, "usage", None) or usage
            model = chunk._hidden_params.get("provider_response_model") or chunk.model or model
        if assembly.empty:
            raise ModelRetryable(f"{self.name} closed the stream without an answer.")
        if not stream.chunks:  # LiteLLM makes an empty answer of it
            where = f" (at {to.base})" if to.base else ""
            raise ModelRetryable(
                f"{self.name} sent nothing that is an answer{where}: see that 'api_base' is an API's address."
            )
        usage = usage if _counted(stream) else None
        cost = self._cost(to, usage, lambda: (estimate(request["messages"]), estimate([assembly.message])))
        return self._whole(to, assembly, counted(usage), cost, model, sent)

    def _whole(
        self,
        to: Route,
        assembly: Assembly,
        told: dict[str, int],
        cost: float | None,
        model: str,
        sampling: dict[str, Any],
    ) -> Answer:
        prompt, ids, logprobs = assembly.told.get("prompt_token_ids"), assembly.token_ids, assembly.logprobs
        wrong = doubts(prompt, ids, logprobs, told)
        kept, new = self._prompts.shorten(prompt) if prompt and "prompt" not in wrong else (0, None)
        finish = "tool_calls" if assembly.message.get("tool_calls") and assembly.finish_reason == "stop" else ""
        return Answer(
            message=assembly.message,
            finish_reason=finish or assembly.finish_reason or "stop",
            model=model or self.name,
            usage=told,
            reasoning=assembly.reasoning,
            cost_usd=cost,
            token_ids=ids if ids and "ids" not in wrong else None,
            logprobs=logprobs if logprobs and not {"ids", "logprobs"} & wrong.keys() else None,
            sampling=sampling,
            identity={"provider": to.provider} | self._card.identity | told_of(assembly.told),
            prompt_tokens_kept=kept,
            prompt_token_ids=new,
            tokens_note="; ".join(wrong.values()),
        )

    def _price(self, to: Route) -> Prices | None:
        """Return what is known of the price; null where nothing is."""
        listed = {} if to.own else self._listed()
        if self._prices != LISTED or "input_cost_per_token" not in listed:
            return self._prices if self._prices != LISTED else None
        return Prices(1e6 * listed["input_cost_per_token"], 1e6 * listed.get("output_cost_per_token", 0.0))

    def _cost(self, to: Route, usage: Any, estimated: Callable[[], tuple[int, int]]) -> float | None:
        """Return an answer's price: LiteLLM's where the list has one, which knows of caches, else by tokens read and written."""
        price, told = self._price(to), counted(usage)
        if price is None:
            return None
        if told and self._prices == LISTED:
            cost: float | None = getattr(usage, "cost", None)
            return cost
        read, written = (told["input_tokens"], told["output_tokens"]) if told else estimated()
        return (read * price.input_usd + written * price.output_usd) / 1e6

    def _listed(self) -> dict[str, Any]:
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
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # what fails is told by exceptions
    practice = [{"role": "user", "content": ""}]  # the first question loads a second's worth of modules more
    list(litellm.completion("openai/none", practice, stream=True, mock_response="", api_key="none"))
    imported: ModuleType = litellm
    return imported


async def _unsilent(stream: AsyncIterator[Any], seconds: float) -> AsyncIterator[Any]:
    """Yield a stream's chunks; ``TimeoutError`` when none came for so long."""
    chunks = aiter(stream)
    while True:
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        yield chunk


def _counted(stream: Any) -> bool:
    """Whether the provider counted tokens, which LiteLLM does where it did not."""
    return any(getattr(chunk, "usage", None) is not None for chunk in stream.chunks)


def _sampling_in(body: Any) -> dict[str, Any]:
    """Return what a request's body says of sampling, wherever its dialect puts it."""
    body = json.loads(body) if isinstance(body, str) else body
    if not isinstance(body, dict):
        return {}
    parts = [body, *(part for key in _NESTED if isinstance(part := body.get(key), dict))]
    found = {
        name: part[alias] for part in parts for name, aliases in _SAMPLING.items() for alias in aliases if alias in part
    }
    return {name: value for name, value in found.items() if value is not None}
