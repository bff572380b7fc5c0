"""Log-probabilities of actions: against the whole logits, in chunks, under a temperature, and their gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainer.policy.rows import segment, stir
from trainer.maths.aggregate import Mean, token_weights
from trainer.maths.losses import nll, policy_loss
from trainer.policy.adapters import LoraSettings
from trainer.policy.logprobs import head_logprobs
from trainer.policy.model import PolicyModel, load_policy
from trainer.policy.packing import PackedBatch, pack

PART = segment(60, 0)


@pytest.fixture
def row() -> PackedBatch:
    [row] = pack([PART, segment(40, 1)], 1000, temperatures=[0.7, 1.3])
    return row


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_they_are_those_of_the_whole_logits(tiny_folder: Path, temperature: float):
    policy = load_policy(tiny_folder)
    [row] = pack([PART], 1000, temperatures=[temperature])
    with torch.no_grad():
        found = policy(row)
        logits = policy.base(input_ids=row.ids[None], use_cache=False).logits[0].double() / temperature
    distribution = logits.log_softmax(-1)[row.actions - 1]
    assert torch.allclose(found.logp.double(), distribution.gather(-1, row.targets[:, None]).squeeze(-1), atol=1e-5)
    assert torch.allclose(found.entropy.double(), -(distribution.exp() * distribution).sum(-1), atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunks_change_neither_values_nor_gradients(chunk: int):
    torch.manual_seed(0)
    weight = torch.randn(50, 8, requires_grad=True)
    hidden = torch.randn(23, 8, requires_grad=True)
    targets, heat = torch.randint(50, (23,)), torch.rand(23) + 0.5
    pull = torch.randn(23)

    def gradients(entries: int) -> tuple[torch.Tensor, ...]:
        found = head_logprobs(hidden, weight, None, targets, heat, entries)
        return (*found, *torch.autograd.grad((found.logp * pull).sum(), (hidden, weight)))

    for part, whole in zip(gradients(chunk * 50), gradients(23 * 50), strict=True):
        assert torch.allclose(part, whole, atol=1e-5)


def test_no_more_logits_exist_at_a_time_than_a_chunk_holds():
    sizes = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                sizes.append(result.numel())
            return result

    hidden, weight = torch.randn(64, 8), torch.randn(500, 8)
    with torch.no_grad(), Watch():
        head_logprobs(hidden, weight, None, torch.zeros(64, dtype=torch.int64), torch.ones(64), chunk_entries=2000)
    assert max(sizes) == weight.numel()  # no tensor is larger than the head's own weight, which 64 rows of logits were


def test_the_ratio_at_update_zero_is_one(tiny_folder: Path, row: PackedBatch):
    policy = load_policy(tiny_folder, lora=LoraSettings(rank=4))
    stir(policy)
    with torch.no_grad():
        old = torch.cat([policy(one).logp for part in (PART, segment(40, 1)) for one in pack([part], 1000, [1.0])])
        [together] = pack([PART, segment(40, 1)], 1000)
        ratio = (policy(together).logp - old).exp()
    assert float((ratio - 1).abs().max()) < 1e-4


@pytest.mark.parametrize("limit", [1, 70, 110])
def test_the_gradient_does_not_depend_on_how_a_batch_is_cut_into_rows(tiny_folder: Path, limit: int):
    segments = [segment(length, length) for length in (60, 40, 30, 50)]
    lengths = torch.tensor([part.actions for part in segments])
    weights = token_weights(lengths, Mean.EPISODE).split(lengths.tolist())
    gradients = []
    for tokens in (1000, limit):
        policy = load_policy(tiny_folder)
        for row in pack(segments, tokens):
            (nll(policy(row).logp) * torch.cat([weights[number] for number in row.segments])).sum().backward()
        gradients.append([value.grad for _, value in policy.trained()])
    for whole, cut in zip(*gradients, strict=True):
        assert whole is not None
        assert torch.allclose(whole, cut, rtol=1e-4, atol=1e-6)


def surrogate(policy: PolicyModel, row: PackedBatch) -> torch.Tensor:
    """The policy loss of a row whose old log-probabilities are somewhat off, so that some of it is clipped."""
    with torch.no_grad():
        offsets = torch.from_numpy(np.random.default_rng(0).normal(0, 0.3, len(row.actions)))
        advantages = torch.from_numpy(np.random.default_rng(1).normal(0, 1, len(row.actions)))
    old = BASE_LOGP[0] + offsets
    return policy_loss(policy(row).logp.double(), old, advantages, dual=3.0).mean()


BASE_LOGP: list[torch.Tensor] = []


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2)], ids=["all weights", "adapter"])
def test_the_gradient_of_the_policy_against_finite_differences(
    tiny_folder: Path, row: PackedBatch, lora: LoraSettings | None
):
    policy = load_policy(tiny_folder, lora=lora)
    stir(policy)
    with torch.no_grad():
        BASE_LOGP[:] = [policy(row).logp.double()]
    surrogate(policy, row).backward()
    torch.manual_seed(1)
    for name, value in policy.trained()[:: max(1, len(policy.trained()) // 6)]:
        assert value.grad is not None, name
        direction = value.grad / value.grad.norm() + 0.3 * torch.randn_like(value) / value.numel() ** 0.5
        slope = float((value.grad * direction).sum())
        step = 3e-4 / float(direction.norm())
        with torch.no_grad():
            value += step * direction
            above = float(surrogate(policy, row))
            value -= 2 * step * direction
            below = float(surrogate(policy, row))
            value += step * direction
        assert (above - below) / (2 * step) == pytest.approx(slope, rel=0.03), name
