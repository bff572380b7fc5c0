"""What a server of one's own tells of itself: how much its model reads, and which weights it has.

``GET BASE/models`` gives the model's entry, where vLLM puts ``max_model_len``. A server that serves a policy in
training tells which one by an object ``warpsmith`` in that entry, or in any chunk of an answer (which wins, since weights
may change between two answers). Its keys, all optional, all flat:

- ``weights``: a name of the weights that changes whenever they do, such as a step or a hash.
- ``version``: how many updates of a training run are behind them.
- ``tokenizer_sha256``, ``chat_template_sha256``: hashes of the files that text becomes tokens by.
- ``engine``, ``dtype``: what computes, such as ``vllm 0.12``, ``bfloat16``.
- ``logprobs``: ``raw`` if they are those of the model, ``processed`` if temperature and top_p are in them already.
"""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any

FIELD = "warpsmith"
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class ServerCard:
    """What is known of a server's model; ``context_tokens`` is null where it does not say."""

    context_tokens: int | None = None
    identity: dict[str, Any] = field(default_factory=dict)


def read_card(base: str, key: str, model: str) -> ServerCard:
    """Ask the server at ``base`` for its card of a model; one that does not answer, or not so, has an empty one."""
    request = urllib.request.Request(f"{base.rstrip('/')}/models", headers={"Authorization": f"Bearer {key}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
            entries = json.load(answer)["data"]
        entry = next((e for e in entries if e.get("id") == model), entries[0] if len(entries) == 1 else {})
        length = entry.get("max_model_len")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ServerCard()
    engine = {"engine": entry["owned_by"]} if isinstance(entry.get("owned_by"), str) else {}
    return ServerCard(length if isinstance(length, int) else None, engine | told_of(entry))


def told_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return what an entry or a chunk says in its ``warpsmith`` object: flat values only."""
    told = fields.get(FIELD)
    flat = told.items() if isinstance(told, dict) else ()
    return {str(key): value for key, value in flat if isinstance(value, str | int | float | bool)}
