"""Critics: what they begin with, their bounds, where they read, and what is saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sandbox.errors import UsageError
from tests.trainer.policy.rows import segment, stir
from trainer.policy.adapters import LoraSettings
from trainer.policy.critic import Bounds, Critic, ValueHead, critic_beside, load_critic
from trainer.policy.model import load_policy
from trainer.policy.packing import PackedBatch, pack

LORA = LoraSettings(rank=4)

Make = Callable[[Path, Bounds | None], Critic]


def own(folder: Path, bounds: Bounds | None) -> Critic:
    return load_critic(folder, bounds)


def beside(folder: Path, bounds: Bounds | None) -> Critic:
    return critic_beside(load_policy(folder, lora=LORA), bounds)


KINDS = pytest.mark.parametrize("make", [own, beside])


@pytest.fixture
def row() -> PackedBatch:
    [row] = pack([segment(60, 0), segment(40, 1)], 1000)
    return row


def values(critic: Critic, row: PackedBatch) -> torch.Tensor:
    with torch.no_grad():
        return critic(row)


@KINDS
@pytest.mark.parametrize(("bounds", "start"), [(None, 0.0), (Bounds(), 1.0)])
def test_a_new_critic_expects_the_same_everywhere(
    tiny_folder: Path, row: PackedBatch, make: Make, bounds: Bounds | None, start: float
):
    assert values(make(tiny_folder, bounds), row).tolist() == [start] * len(row.actions)


def test_a_bounded_head_never_leaves_its_bounds_and_a_free_one_does():
    hidden = torch.tensor([[-1e6], [0.0], [1e6]])
    for bounds, expected in ((Bounds(), [-1.0, 1.0, 3.0]), (None, [-1e6, 0.0, 1e6])):
        head = ValueHead(1, bounds)
        head.linear.weight.data.fill_(1.0)
        assert head(hidden).tolist() == pytest.approx(expected, abs=1e-5)


@KINDS
def test_a_value_is_read_before_its_action_and_knows_nothing_of_it(tiny_folder: Path, make: Make):
    critic = make(tiny_folder, None)
    stir(critic.model)
    part = segment(30, 0)
    [row] = pack([part], 100)
    last = int(row.actions[-1])
    row_with_another = row.ids.clone()
    row_with_another[last] = (row.ids[last] + 1) % 400
    before, after = values(critic, row), values(critic, type(row)(**{**vars(row), "ids": row_with_another}))
    assert torch.equal(before, after)
    row_with_another[last - 1] = (row.ids[last - 1] + 1) % 400
    assert values(critic, type(row)(**{**vars(row), "ids": row_with_another}))[-1] != before[-1]


@KINDS
def test_a_critic_learns_and_what_it_learnt_is_saved(tiny_folder: Path, tmp_path: Path, row: PackedBatch, make: Make):
    critic = make(tiny_folder, Bounds())
    targets = torch.linspace(0, 2, len(row.actions))
    optimizer = torch.optim.Adam([value for _, value in critic.trained()], lr=3e-3)
    errors = []
    for _ in range(8):
        error = ((critic(row) - targets) ** 2).mean()
        errors.append(error.item())
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
    assert errors[-1] < 0.7 * errors[0]
    critic.save(tmp_path / "plain")
    critic.save(tmp_path / "gathered", {name: value.clone() for name, value in critic.model.state_dict().items()})
    for folder in (tmp_path / "plain", tmp_path / "gathered"):
        read = (
            critic_beside(load_policy(tiny_folder, lora=LORA), folder=folder) if critic.beside else load_critic(folder)
        )
        assert torch.equal(values(read, row), values(critic, row))


def test_a_critic_beside_leaves_the_policy_alone(tiny_folder: Path, row: PackedBatch):
    policy = load_policy(tiny_folder, lora=LORA)
    stir(policy)
    with torch.no_grad():
        before = policy(row).logp
    critic = critic_beside(policy)
    optimizer = torch.optim.Adam([value for _, value in critic.trained()], lr=1e-2)
    ((critic(row) - 2) ** 2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        assert torch.equal(policy(row).logp, before)
    assert not {name for name, _ in policy.trained()} & {name for name, _ in critic.trained()}
    assert all(value.requires_grad for _, value in policy.trained() + critic.trained())


def test_only_a_frozen_base_is_shared(tiny_folder: Path):
    with pytest.raises(UsageError, match="only a base that is frozen"):
        critic_beside(load_policy(tiny_folder))


def test_a_folder_without_a_critic_is_refused(tiny_folder: Path, tmp_path: Path):
    load_policy(tiny_folder, lora=LORA).save(tmp_path)
    with pytest.raises(UsageError, match="no critic in this folder"):
        critic_beside(load_policy(tiny_folder, lora=LORA), folder=tmp_path)
