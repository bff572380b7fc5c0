"""Keys and values of tokens that a model has read: joined to a batch, taken out of it, and kept for prompts that go on.

Rows of a batch are padded on the left, so that all of them end at the same place. All functions take and return
``transformers.DynamicCache`` objects of tensors ``[batch, heads, tokens, width]`` a layer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache


def argument_of(model: Any) -> str:
    """Return what a model's forward calls the cache: releases of transformers differ."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def length(cache: DynamicCache) -> int:
    """Return how many tokens a cache holds a row."""
    return int(cache.get_seq_length())


def joined(caches: Sequence[DynamicCache]) -> DynamicCache:
    """Return the rows of several caches as one batch, padded on the left."""
    longest = max(map(length, caches))
    layers = []
    for parts in zip(*(list(cache) for cache in caches), strict=True):
        padded = [tuple(pad(each, (0, 0, longest - each.shape[2], 0)) for each in part[:2]) for part in parts]
        layers.append((torch.cat([keys for keys, _ in padded]), torch.cat([values for _, values in padded])))
    return DynamicCache(layers)


def mask_of(read: Tensor, tokens: int) -> Tensor:
    """Return the attention mask ``[rows, tokens]`` of rows of which the last ``read`` tokens each are no padding."""
    places = torch.arange(tokens, device=read.device)
    return (places[None] >= (tokens - read)[:, None]).long()


def rows(cache: DynamicCache, wanted: Sequence[int], tokens: int) -> DynamicCache:
    """Return some rows of a batch, as far as the last ``tokens`` go."""
    start = length(cache) - tokens
    return _each(cache, lambda states: states[list(wanted), :, start:])


def beginning(cache: DynamicCache, tokens: int) -> DynamicCache:
    """Return the first tokens of a single row."""
    return _each(cache, lambda states: states[:, :, :tokens])


def _each(cache: DynamicCache, part: Callable[[Tensor], Tensor]) -> DynamicCache:
    return DynamicCache([(part(keys), part(values)) for keys, values, *_ in cache])


@dataclass(frozen=True)
class _Kept:
    ids: NDArray[np.int32]
    cache: DynamicCache


class KeptPrefixes:
    """Conversations that were read, newest last, for prompts that begin as they do.

    Args:
        most_tokens: Kept in all.
    """

    def __init__(self, most_tokens: int) -> None:
        self._most = most_tokens
        self._kept: list[_Kept] = []

    def keep(self, ids: Sequence[int], cache: DynamicCache) -> None:
        """Keep what was read of a conversation; those that it goes on from, and the oldest beyond the limit, go."""
        new = _Kept(np.asarray(ids, np.int32), cache)
        self._kept = [each for each in self._kept if _shared(each.ids, new.ids) < len(each.ids)]
        self._kept.append(new)
        while self._kept and sum(len(each.ids) for each in self._kept) > self._most:
            self._kept.pop(0)

    def longest(self, ids: Sequence[int]) -> DynamicCache | None:
        """Return keys and values of the longest kept beginning of a prompt, without its last token; null if there is none."""
        prompt = np.asarray(ids[:-1], np.int32)
        best = max(self._kept, key=lambda each: _shared(each.ids, prompt), default=None)
        if best is None or (shared := _shared(best.ids, prompt)) == 0:
            return None
        return beginning(best.cache, shared)

    def clear(self) -> None:
        """Forget all: the weights have changed, or memory is short."""
        self._kept.clear()


def _shared(one: NDArray[np.int32], other: NDArray[np.int32]) -> int:
    """Return how many ids two sequences begin with in common."""
    size = min(len(one), len(other))
    differ = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if len(differ) else size
