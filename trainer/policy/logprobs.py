"""What a policy gives the actions of a row: log-probabilities and entropies, without the logits of a whole row at once.

The vocabulary times 131,072 tokens is 24 to 74 GiB in single precision. Hidden states are computed once; head and softmax
follow for the actions only, a chunk at a time, and are computed again on the way back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

CHUNK_ENTRIES = 1 << 27
"""How many logits exist at a time: half a GiB in single precision."""


class ActionLogprobs(NamedTuple):
    """float32, (actions,) each. The entropy, in nats, is of the whole distribution and has no gradient."""

    logp: Tensor
    entropy: Tensor


def head_logprobs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    temperature: Tensor,
    chunk_entries: int = CHUNK_ENTRIES,
) -> ActionLogprobs:
    """Score targets by the head of a language model in single precision, chunk by chunk.

    Args:
        hidden: The last hidden states before each target, (actions, width).
        weight: Of the head, (vocabulary, width).
        bias: Of the head, (vocabulary,), if it has one.
        targets: int64, (actions,).
        temperature: float32, (actions,); logits are divided by it before the softmax.
        chunk_entries: How many logits exist at a time.
    """
    size = max(1, chunk_entries // weight.shape[0])
    chunks = [
        checkpoint(_score, part, weight, bias, target, heat, use_reentrant=False)
        for part, target, heat in zip(hidden.split(size), targets.split(size), temperature.split(size), strict=True)
    ]
    return ActionLogprobs(torch.cat([logp for logp, _ in chunks]), torch.cat([entropy for _, entropy in chunks]))


def _score(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperature: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.autocast(hidden.device.type, enabled=False):
        logits = linear(hidden.float(), weight.float(), None if bias is None else bias.float())
        logits = logits / temperature[:, None]
        normaliser = torch.logsumexp(logits, dim=-1)
        logp = logits.gather(-1, targets[:, None]).squeeze(-1) - normaliser
        with torch.no_grad():
            entropy = normaliser - (torch.softmax(logits, dim=-1) * logits).sum(-1)
    return logp, entropy
