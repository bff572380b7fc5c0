"""Where a model's questions go, and in which form its provider wants them."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from agent.caching import marked
from agent.model import ModelRefused, Sampling

_SAME_PROTOCOL = ("openai", "hosted_vllm")
"""Spoken to as OpenAI where a server of one's own is named; what such a server adds to the protocol gets through so."""
_ANOTHER_NAME = {"ollama": "ollama_chat", "hosted_vllm": "openai"}
"""The same server by the way of speaking to it that knows tools, and the one that keeps prompt token ids."""
_FIRST_PATH = {"openai": "/v1", "gemini": "/v1beta"}
"""Put behind an address without a path."""
_PUTS_ITS_OWN = ("anthropic", "ollama", "ollama_chat")
"""LiteLLM puts the whole path behind their addresses, the version too."""
_OWN_CREDENTIALS = ("bedrock", "vertex_ai", "azure", "sagemaker", "watsonx")
"""Not asked with a key but with what their own tools have set up."""
_BY_RESPONSES = re.compile(r"(gpt-(5\.[4-9]|[6-9]|\d\d)|.*codex)")
"""OpenAI's models that reason between tool calls only where they are asked by its responses, not by chat completions."""
_WANT_REASONING = ("deepseek", "moonshot", "zai", "minimax", "ollama_chat")
_WANT_FIELDS = ("gemini", "vertex_ai")


@dataclass(frozen=True)
class Route:
    """One model of one provider.

    Attributes:
        provider: As LiteLLM calls it; empty if it knows none for the name.
        model: The name LiteLLM is given.
        base: Address of the server; empty for the provider's own.
        key: For a server of one's own; empty where the provider's own key is used.
        own: Whether it is a server of one's own that speaks OpenAI's protocol.
    """

    provider: str
    model: str
    base: str = ""
    key: str = ""
    own: bool = False

    @property
    def responses(self) -> bool:
        """Whether it is asked by OpenAI's responses."""
        return "/responses/" in self.model

    @property
    def claude(self) -> bool:
        """Whether it is one of Anthropic's models, wherever it is served."""
        return "claude" in self.model or self.provider == "anthropic"

    def request(self, messages: Sequence[dict[str, Any]], sampling: Sampling, context_tokens: int) -> dict[str, Any]:
        """Return what LiteLLM is asked beside the tools."""
        request: dict[str, Any] = {"model": self.model, "messages": self.wire(messages)}
        wanted: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed}
        wanted |= {"max_tokens": sampling.max_output_tokens, "reasoning_effort": sampling.reasoning_effort or None}
        if self.claude and sampling.reasoning_effort not in (
            "",
            "none",
        ):  # reasoning, they take no other than their own
            wanted |= {"temperature": None, "top_p": None}
        request |= {key: value for key, value in wanted.items() if value is not None}
        if self.base:
            request["base_url"] = self.base
        if self.key:
            request["api_key"] = self.key
        if self.provider == "ollama_chat":  # it cuts a longer conversation silently, at 4,096 tokens unless told
            request["num_ctx"] = context_tokens
        if self.provider in _WANT_FIELDS:  # signatures have their own field, and ids stay short
            request["thought_signature_in_tool_call_id"] = False
        if self.provider == "openai" and not self.base:  # requests of one session find each other's cache by it
            beginning = json.dumps(messages[:2], sort_keys=True)
            request["prompt_cache_key"] = hashlib.sha256(beginning.encode()).hexdigest()[:32]
        if self.responses:  # kept by nobody but us, the reasoning comes sealed and goes back so
            request |= {"store": False, "include": ["reasoning.encrypted_content"]}
        if self.own and "reasoning_effort" in request:  # only for names it knows would LiteLLM pass it on
            request["extra_body"] = {"reasoning_effort": request.pop("reasoning_effort")}
        return request

    def wire(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the stored conversation as it is sent: without what only other providers understand, and with cache marks."""
        sent = [self._without_foreign(message) for message in copy.deepcopy(list(messages))]
        return marked(sent) if self.claude else sent

    def _without_foreign(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["role"] != "assistant":
            return message
        wants_fields = self.provider in _WANT_FIELDS or self.responses
        wanted = {
            "thinking_blocks": self.claude,
            "reasoning_content": (self.own and not self.responses) or self.provider in _WANT_REASONING,
            "reasoning_items": self.responses,
            "provider_specific_fields": wants_fields,
        }
        sent = {key: value for key, value in message.items() if wanted.get(key, True)}
        if not wants_fields:
            for call in sent.get("tool_calls") or ():
                call.pop("provider_specific_fields", None)
        return sent


def route(litellm: ModuleType, name: str, api_base: str, environment: Mapping[str, str] = os.environ) -> Route:
    """Return where the questions to a model go.

    Args:
        litellm: The module.
        name: A LiteLLM model name. With an address a bare name means a server that speaks OpenAI's protocol.
        api_base: Address of a server of one's own; empty for the provider's.
        environment: Where keys are.

    Raises:
        ModelRefused: The name is that of a server of one's own, and there is no address.
    """
    prefix, _, rest = name.partition("/")
    known = bool(rest) and prefix in litellm.provider_list
    if not known and not api_base:
        found = _looked_up(litellm, name)
        return Route(found, f"openai/responses/{name}" if found == "openai" and _BY_RESPONSES.match(name) else name)
    provider = prefix if known else "openai"
    base = api_base or (environment.get("HOSTED_VLLM_API_BASE", "") if provider == "hosted_vllm" else "")
    if provider == "hosted_vllm" and not base:  # LiteLLM would send the conversation to OpenAI
        raise ModelRefused(
            f"{name} is on a server of your own, and its address is not known.",
            next_step="Give it with --api-base, such as http://localhost:8000/v1.",
        )
    if provider in _PUTS_ITS_OWN:
        base = base.rstrip("/").removesuffix("/v1")
    if base and not urlsplit(base).path.strip("/"):
        base = base.rstrip("/") + _FIRST_PATH.get(_ANOTHER_NAME.get(provider, provider), "")
    key = _key(provider, environment) if base else ""
    if provider == "openai" and not base and _BY_RESPONSES.match(rest):
        rest = f"responses/{rest}"
    spoken = _ANOTHER_NAME.get(provider, provider) if base or provider == "ollama" else provider
    return Route(spoken, f"{spoken}/{rest if known else name}", base, key, bool(base) and provider in _SAME_PROTOCOL)


def _looked_up(litellm: ModuleType, name: str) -> str:
    try:
        return str(litellm.get_llm_provider(name)[1])
    except litellm.exceptions.BadRequestError:
        return ""


def _key(provider: str, environment: Mapping[str, str]) -> str:
    """Return the key for a server of one's own, which may want none; LiteLLM insists on some text."""
    found = environment.get(f"{re.sub('_chat$', '', provider).upper()}_API_KEY", "")
    if provider == "gemini":
        found = found or environment.get("GOOGLE_API_KEY", "")
    return found or ("" if provider in _OWN_CREDENTIALS else "none")
