"""Single answers of a policy to many prompts at once, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from trainer.policy.model import PolicyModel
from trainer.rollout.drawing import Sampling, draw, end_ids, randomness
from trainer.rollout.kv import argument_of, length, mask_of, rows


@dataclass(frozen=True)
class Sampled:
    """One answer.

    Attributes:
        ids: With the token that ended it, if one did.
        logprobs: Of each id, under the very distribution that it was drawn from.
        truncated: Whether it was cut off by the limit.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool


@dataclass(eq=False)
class _Row:
    place: int
    prompt: Sequence[int]
    generator: torch.Generator
    ids: list[int]
    logprobs: list[float]


def sample(
    policy: PolicyModel,
    prompts: Sequence[Sequence[int]],
    *,
    limit: int,
    temperature: float = 1.0,
    seed: int = 0,
    stop: frozenset[int] | None = None,
    batch: int = 256,
) -> list[Sampled]:
    """Answer every prompt once; an answer depends on the others of its batch by rounding only.

    Args:
        policy: Whose answers they are.
        prompts: Token ids, none of them empty.
        limit: Tokens of an answer at most.
        temperature: 0 takes the likeliest token.
        seed: With the place of a prompt it decides its answer.
        stop: Ids that end an answer; None for those of the model.
        batch: Answers at once; prompts of like length come together.

    Returns:
        The answers in the order of the prompts.
    """
    sampling = Sampling(temperature=temperature, seed=seed)
    ends = frozenset(end_ids(policy)) if stop is None else stop
    order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
    done: dict[int, Sampled] = {}
    for start in range(0, len(order), batch):
        batched = [
            _Row(place, prompts[place], randomness(sampling, place, policy.device), [], [])
            for place in order[start : start + batch]
        ]
        with torch.inference_mode(), policy.computing("policy"):
            _write(policy, batched, sampling, ends, limit)
        for row in batched:
            done[row.place] = Sampled(tuple(row.ids), tuple(row.logprobs), row.ids[-1] not in ends)
    return [done[place] for place in range(len(prompts))]


def _write(policy: PolicyModel, at_work: list[_Row], sampling: Sampling, ends: frozenset[int], limit: int) -> None:
    """Write the answers of one batch; rows leave it in halves, so that few answers are not written in a large batch."""
    cache = DynamicCache()
    read = torch.tensor([len(row.prompt) for row in at_work], device=policy.device)
    ids = torch.tensor(_padded([row.prompt for row in at_work]), device=policy.device)
    while True:
        drawn = draw(_read(policy, ids, read, cache), [sampling] * len(at_work), [row.generator for row in at_work])
        for row, token, logprob in zip(at_work, *drawn, strict=True):
            if not _over(row, ends, limit):
                row.ids.append(token)
                row.logprobs.append(logprob)
        left = [place for place, row in enumerate(at_work) if not _over(row, ends, limit)]
        if not left:
            return
        ids = torch.tensor(drawn[0], device=policy.device)[:, None]
        if len(left) <= len(at_work) // 2:
            at_work, ids, read = [at_work[place] for place in left], ids[left], read[left]
            cache = rows(cache, left, int(read.max()))
        read = read + 1


def _read(policy: PolicyModel, ids: Tensor, read: Tensor, cache: DynamicCache) -> Tensor:
    """Read the next ids of every row, which make it ``read`` tokens long, and return the logits after them."""
    mask = mask_of(read, length(cache) + ids.shape[1])
    network: Any = policy.network
    logits: Tensor = network(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :],
        **{argument_of(policy.base): cache},
        use_cache=True,
        logits_to_keep=1,
    ).logits
    return logits[:, -1]


def _over(row: _Row, ends: frozenset[int], limit: int) -> bool:
    return len(row.ids) >= limit or (bool(row.ids) and row.ids[-1] in ends)


def _padded(prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    longest = max(map(len, prompts))
    return [[*[prompt[0]] * (longest - len(prompt)), *prompt] for prompt in prompts]
