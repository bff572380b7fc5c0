"""What a request for a chat completion asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sandbox.errors import UsageError
from trainer.rollout.drawing import Sampling


@dataclass(frozen=True)
class Asked:
    """A request, understood."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    sampling: Sampling
    stream: bool
    usage_wanted: bool
    ids_wanted: bool
    logprobs_wanted: bool


def understood(body: dict[str, Any]) -> Asked:
    """Read a request.

    Raises:
        UsageError: It is none, or wants what is not done here.
    """
    if body.get("n") not in (None, 1):
        raise UsageError("Only one answer a request is given: n must be 1.")
    try:
        stop = body.get("stop") or ()
        sampling = Sampling(
            temperature=_number(body, "temperature", 1.0),
            top_p=_number(body, "top_p", 1.0),
            seed=None if body.get("seed") is None else int(body["seed"]),
            stop=(stop,) if isinstance(stop, str) else tuple(map(str, stop)),
        )
        most = body.get("max_completion_tokens") or body.get("max_tokens")
        messages = [{**message, "content": _text(message.get("content"))} for message in body["messages"]]
        if not all(message["role"] for message in messages) or sampling.temperature < 0 or not 0 < sampling.top_p <= 1:
            raise ValueError("temperature must be at least 0, and top_p between 0 and 1")
        return Asked(
            messages=messages,
            tools=list(body.get("tools") or ()),
            sampling=replace(sampling, max_tokens=None if most is None else int(most)),
            stream=bool(body.get("stream")),
            usage_wanted=bool((body.get("stream_options") or {}).get("include_usage")),
            ids_wanted=bool(body.get("return_token_ids")),
            logprobs_wanted=bool(body.get("logprobs")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"This is no request for a chat completion: {error!r}.") from error


def _number(body: dict[str, Any], name: str, default: float) -> float:
    return default if body.get(name) is None else float(body[name])


def _text(content: Any) -> str:
    """Return a message's content as text, also where it comes in parts."""
    if isinstance(content, list):
        return "".join(str(part["text"]) for part in content)
    return str(content or "")
