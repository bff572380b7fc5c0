"""Rows: what is in them, and that the segments of one cannot see each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.policy.rows import segment
from trainer.policy.model import load_policy
from trainer.policy.packing import pack

SEGMENTS = [segment(length, seed) for seed, length in enumerate((30, 50, 20, 70, 45))]


@settings(max_examples=30)
@given(st.lists(st.integers(3, 60), min_size=1, max_size=12), st.integers(3, 100))
def test_every_segment_is_in_one_row_and_rows_keep_to_the_limit(lengths: list[int], limit: int):
    segments = [segment(length, seed) for seed, length in enumerate(lengths)]
    rows = pack(segments, limit)
    assert sorted(index for row in rows for index in row.segments) == list(range(len(segments)))
    assert all(row.tokens <= limit or len(row.segments) == 1 for row in rows)


def test_a_row_says_where_its_actions_are():
    heats = [0.5, 0.6, 0.7, 0.8, 0.9]
    [row] = pack(SEGMENTS, 1000, temperatures=heats)
    parts = [(SEGMENTS[number], heats[number]) for number in row.segments]
    assert row.lengths == tuple(sorted(row.lengths, reverse=True))
    assert row.targets.tolist() == np.concatenate([part.ids[part.action] for part, _ in parts]).tolist()
    assert row.counts == tuple(part.actions for part, _ in parts)
    assert row.temperature.tolist() == pytest.approx([heat for part, heat in parts for _ in range(part.actions)])


def test_what_follows_the_last_action_and_segments_without_any_are_left_out():
    part = segment(60, 1)
    part.action[20:] = False
    silent = replace(part, action=np.zeros(60, np.bool_))
    [row] = pack([silent, part], 100)
    assert row.segments == (1,)
    assert row.tokens == 32, "its last action is among the first 20, which is rounded up"
    assert row.ids.tolist() == part.ids[:32].tolist()
    [short] = pack([replace(part, ids=part.ids[:20], action=part.action[:20])], 100)
    assert short.ids.tolist() == [*part.ids[:20], *[0] * 12]
    assert short.actions.tolist() == row.actions.tolist()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_packed_equals_unpacked(tiny_folder: Path, seed: int):
    policy = load_policy(tiny_folder)
    segments = [segment(length, seed * 10 + place) for place, length in enumerate((30, 50, 30, 20, 70, 30))]
    [row] = pack(segments, 1000)
    alone = torch.cat([policy(one).logp for number in row.segments for one in pack([segments[number]], 1000)])
    assert torch.allclose(policy(row).logp, alone, atol=1e-6)


def test_no_segment_hears_another_nor_hands_it_a_gradient(tiny_folder: Path):
    policy = load_policy(tiny_folder, checkpointing=False)
    embedding = policy.base.get_input_embeddings()
    seen: list[torch.Tensor] = []
    embedding.register_forward_hook(lambda _module, _given, output: seen.append(output.retain_grad() or output))
    [row] = pack(SEGMENTS[:3], 1000)
    policy(row).logp[-row.counts[-1] :].sum().backward()
    [states] = seen
    own = sum(row.lengths[:2])
    assert states.grad is not None
    assert (states.grad[0, :own] == 0).all()
    assert (states.grad[0, own:] != 0).any()


def test_with_a_cache_or_padding_attention_is_that_of_transformers(tiny_folder: Path):
    policy = load_policy(tiny_folder)
    ids = torch.from_numpy(SEGMENTS[1].ids.astype(np.int64))[None]
    with torch.no_grad():
        whole = policy.base(input_ids=ids, use_cache=False).logits
        first = policy.base(input_ids=ids[:, :30], use_cache=True)
        rest = policy.base(input_ids=ids[:, 30:], past_key_values=first.past_key_values, use_cache=True).logits
        padded = torch.cat([torch.zeros(1, 5, dtype=torch.int64), ids], dim=1)
        seen = torch.ones_like(padded)
        seen[:, :5] = 0
        positions = (seen.cumsum(1) - 1).clamp(min=0)
        behind = policy.base(input_ids=padded, attention_mask=seen, position_ids=positions, use_cache=False).logits
    assert torch.allclose(rest, whole[:, 30:], atol=1e-5)
    assert torch.allclose(behind[:, 5:], whole, atol=1e-5)
