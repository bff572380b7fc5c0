"""Attention over a row of packed segments, each of which sees only itself.

A mask that keeps segments apart would have the square of the row's length in entries, and would rule out the fast kernels.
Each segment is attended to on its own instead, causally and without any mask, so that what another segment says cannot
reach it whatever its positions are. Without packing (generation, padding, a cache) this is transformers' own attention.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "segments"
"""What the attention is called in a model's configuration (``attn_implementation``)."""

LENGTHS = "segment_lengths"
"""The argument of the model's forward that names the lengths of the packed segments."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    segment_lengths: tuple[int, ...] | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend within each segment of one row.

    Args:
        module: The attention layer; asked only where nothing is packed.
        query: Of shape (1, heads, tokens, width); key and value may have fewer heads, each shared by several queries.
        key: As above.
        value: As above.
        attention_mask: None where segments are packed.
        scaling: Of the scores.
        segment_lengths: They add up to ``tokens``; None where nothing is packed.
        others: What transformers passes besides.

    Returns:
        The attention's output, (1, tokens, heads, width), and no weights.
    """
    if segment_lengths is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)
        return output, None
    parts = zip(*(_alike(part, segment_lengths) for part in (query, key, value)), strict=True)
    grouped = query.shape[1] != key.shape[1]
    outputs = [
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped) for q, k, v in parts
    ]
    return torch.cat([output.transpose(1, 2).flatten(0, 1) for output in outputs])[None], None


def _alike(row: Tensor, lengths: tuple[int, ...]) -> list[Tensor]:
    """Part a row of shape (1, heads, tokens, width) into neighbours of one length: (segments, heads, length, width) each.

    They are attended to together: hundreds of short segments one by one would keep a GPU waiting for its orders.
    """
    runs = [(length, len(list(run))) for length, run in groupby(lengths)]
    parts = row[0].split([length * count for length, count in runs], dim=1)
    return [
        part.unflatten(1, (count, length)).transpose(0, 1) for part, (length, count) in zip(parts, runs, strict=True)
    ]


def mask(*, q_length: int, kv_length: int, attention_mask: Tensor | None = None, **others: Any) -> Tensor | None:
    """Return no mask for whole rows without padding, which `attend` keeps causal; transformers' mask for all else."""
    if attention_mask is None and q_length == kv_length:
        return None
    masked: Tensor | None = sdpa_mask(q_length=q_length, kv_length=kv_length, attention_mask=attention_mask, **others)
    return masked


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, mask)
