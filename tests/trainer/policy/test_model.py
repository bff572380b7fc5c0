"""Policies: adapters, the reference, what is saved, what is refused, and gradients that do not depend on how they are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sandbox.errors import InternalError, UsageError
from tests.trainer.policy.rows import files, segment, stir
from trainer.policy.adapters import LoraSettings
from trainer.policy.critic import critic_beside
from trainer.policy.identity import read_hashes
from trainer.policy.model import PolicyModel, load_policy
from trainer.policy.packing import PackedBatch, pack

LORA = LoraSettings(rank=4)


@pytest.fixture
def row() -> PackedBatch:
    [row] = pack([segment(60, 0), segment(40, 1)], 1000)
    return row


def logp(policy: PolicyModel, row: PackedBatch) -> torch.Tensor:
    with torch.no_grad():
        return policy(row).logp


def test_a_new_adapter_changes_nothing_and_the_reference_is_the_base(tiny_folder: Path, row: PackedBatch):
    base = logp(load_policy(tiny_folder), row)
    policy = load_policy(tiny_folder, lora=LORA)
    assert torch.equal(logp(policy, row), base)
    stir(policy)
    assert not torch.allclose(logp(policy, row), base, atol=1e-3)
    with policy.reference():
        assert torch.equal(logp(policy, row), base)
    assert not torch.allclose(logp(policy, row), base, atol=1e-3)


def test_where_all_weights_are_trained_there_is_no_reference(tiny_folder: Path):
    with pytest.raises(InternalError, match="model of its own"), load_policy(tiny_folder).reference():
        pass


def test_adapters_begin_alike_in_every_process(tiny_folder: Path):
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(load_policy(tiny_folder, lora=LORA).trained())
    assert all(torch.equal(first, second) for (_, first), (_, second) in zip(*states, strict=True))


def test_layers_computed_again_give_the_gradients_of_layers_that_were_kept(tiny_folder: Path, row: PackedBatch):
    gradients = []
    for checkpointing in (True, False):
        policy = load_policy(tiny_folder, checkpointing=checkpointing)
        policy(row).logp.sum().backward()
        gradients.append([value.grad for _, value in policy.trained()])
    assert all(torch.equal(again, kept) for again, kept in zip(*gradients, strict=True))


def test_the_way_back_may_come_when_another_adapter_is_in_use(tiny_folder: Path, row: PackedBatch):
    policy = load_policy(tiny_folder, lora=LORA)
    critic = critic_beside(policy)
    stir(policy)
    apart = []
    for loss in (lambda: policy(row).logp.sum(), lambda: critic(row).sum()):
        policy.zero_grad()
        loss().backward()
        apart.append({name: value.grad for name, value in policy.named_parameters() if value.grad is not None})
    policy.zero_grad()
    both = policy(row).logp.sum(), critic(row).sum()
    assert policy.adapters is not None
    for loss, other in zip(both, ("critic", None), strict=True):
        with policy.adapters.using(other):
            loss.backward()
    together = {name: value.grad for name, value in policy.named_parameters() if value.grad is not None}
    assert set(together) == set(apart[0]) | set(apart[1])
    assert not set(apart[0]) & set(apart[1])
    assert all(torch.equal(together[name], value) for part in apart for name, value in part.items())


@pytest.mark.parametrize("lora", [None, LORA], ids=["all weights", "adapter"])
def test_what_is_saved_is_what_is_loaded(
    tiny_folder: Path, tmp_path: Path, row: PackedBatch, lora: LoraSettings | None
):
    policy = load_policy(tiny_folder, lora=lora)
    stir(policy)
    with torch.no_grad():
        for _, value in policy.trained():
            value += 0.01
    policy.save(tmp_path / "plain")
    policy.save(tmp_path / "gathered", {name: value.clone() for name, value in policy.state_dict().items()})
    for folder in (tmp_path / "plain", tmp_path / "gathered"):
        assert torch.equal(logp(load_policy(folder, lora=lora), row), logp(policy, row))
    hashes = read_hashes(tmp_path / "plain")
    assert hashes.weights == read_hashes(tmp_path / "gathered").weights != policy.hashes.weights
    assert hashes.tokenizer_sha256 == policy.hashes.tokenizer_sha256
    assert hashes.chat_template_sha256 == policy.hashes.chat_template_sha256 != ""


def test_an_adapter_becomes_part_of_the_weights_where_all_are_to_be_trained(
    tiny_folder: Path, tmp_path: Path, row: PackedBatch
):
    policy = load_policy(tiny_folder, lora=LORA)
    stir(policy)
    policy.save(tmp_path / "adapter")
    assert {"adapter_config.json", "adapter_model.safetensors"} <= files(tmp_path / "adapter")
    with pytest.raises(UsageError, match="rank 4, and 7 is asked for"):
        load_policy(tmp_path / "adapter", lora=LoraSettings(rank=7))
    merged = load_policy(tmp_path / "adapter")
    assert merged.adapters is None
    assert torch.allclose(logp(merged, row), logp(policy, row), atol=1e-5)


def test_weights_in_training_are_kept_in_single_precision_and_a_frozen_base_is_not(tiny_folder: Path, row: PackedBatch):
    whole = load_policy(tiny_folder, dtype=torch.bfloat16)
    adapted = load_policy(tiny_folder, dtype=torch.bfloat16, lora=LORA)
    assert {value.dtype for _, value in whole.trained() + adapted.trained()} == {torch.float32}
    assert adapted.base.get_input_embeddings().weight.dtype == torch.bfloat16
    exact = logp(load_policy(tiny_folder), row)
    for policy in (whole, adapted):
        found = policy(row).logp
        assert found.dtype == torch.float32
        assert torch.allclose(found, exact, atol=0.05)
        found.sum().backward()
        assert all(value.grad is not None for _, value in policy.trained())


def test_a_folder_without_a_model_or_a_tokenizer_is_refused(tiny_folder: Path, tmp_path: Path):
    with pytest.raises(UsageError, match=r"no config\.json.*nothing is downloaded"):
        load_policy(tmp_path)
    for path in tiny_folder.iterdir():
        if "tokenizer" not in path.name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match=r"no tokenizer\.json"):
        load_policy(tmp_path)


def test_an_architecture_whose_segments_would_see_each_other_is_refused(tmp_path: Path, tiny_folder: Path):
    for path in tiny_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 8}
    config |= {"layer_types": ["sliding_attention"] * 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="would see each other"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        ("Mistral", {"sliding_window": 8}, "would see each other"),
        ("Granite", {"logits_scaling": 8.0}, "logits_scaling=8.0"),
    ],
)
def test_an_architecture_that_would_be_computed_otherwise_is_refused(
    kind: str, settings: dict[str, float], told: str, tmp_path: Path, tiny_folder: Path
):
    for path in tiny_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": kind.lower(), "architectures": [f"{kind}ForCausalLM"], **settings}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=told):
        load_policy(tmp_path)


def test_a_type_that_needs_scaled_losses_is_refused(tiny_folder: Path):
    with pytest.raises(UsageError, match="float16"):
        load_policy(tiny_folder, dtype=torch.float16)
