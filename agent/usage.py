"""What an answer cost in tokens, in one vocabulary whatever the provider calls it."""

from __future__ import annotations

from typing import Any


def counted(usage: Any) -> dict[str, int]:
    """Return LiteLLM's usage as plain numbers, with these keys of ours beside the provider's.

    - ``input_tokens``: all that was read, cached or not.
    - ``cached_input_tokens``: of those, read from the provider's cache.
    - ``cache_write_tokens``: of those, written to it.
    - ``output_tokens``: all that was written, reasoning included.
    - ``reasoning_tokens``: of those, spent on reasoning; where the provider does not tell, LiteLLM's count of the reasoning
      it showed.
    - ``total_tokens``: input and output.

    Args:
        usage: LiteLLM's ``Usage``, or null for an empty result.
    """
    if usage is None:
        return {}
    told = usage.model_dump()
    read, wrote = told.get("prompt_tokens_details") or {}, told.get("completion_tokens_details") or {}
    prompt, completion = _number(told.get("prompt_tokens")), _number(told.get("completion_tokens"))
    ours = {
        "input_tokens": prompt,
        "cached_input_tokens": _number(read.get("cached_tokens") or told.get("cache_read_input_tokens")),
        "cache_write_tokens": _number(read.get("cache_creation_tokens") or told.get("cache_creation_input_tokens")),
        "output_tokens": completion,
        "reasoning_tokens": _number(wrote.get("reasoning_tokens")),
        "total_tokens": prompt + completion,
    }
    return {key: value for key, value in told.items() if isinstance(value, int)} | ours


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
