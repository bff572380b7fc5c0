"""Denominators of a whole batch: however it is cut, and over two processes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.trainer.maths.test_losses import ADVANTAGES, LENGTHS, LOGP, OLD
from trainer.maths.aggregate import Mean, token_weights
from trainer.maths.losses import policy_loss
from trainer.maths.whitening import Moments, whiten


def test_an_episodes_mean_is_one_over_t():
    assert token_weights(LENGTHS, Mean.EPISODE).tolist() == pytest.approx([1 / 8] * 4 + [1 / 6] * 3)


def test_the_mean_over_tokens_counts_each_the_same():
    assert token_weights(LENGTHS, Mean.TOKEN).tolist() == pytest.approx([1 / 7] * 7)


def gradient(part: slice, mean: Mean) -> torch.Tensor:
    """The gradient of one shared parameter by a part of the batch's actions."""
    shift = torch.zeros((), requires_grad=True)
    loss = policy_loss(LOGP[part] + shift, OLD[part], whiten(ADVANTAGES, Moments.of(ADVANTAGES))[part], dual=3.0)
    (loss * token_weights(LENGTHS, mean)[part]).sum().backward()
    assert shift.grad is not None
    return shift.grad


@pytest.mark.parametrize("mean", list(Mean))
@pytest.mark.parametrize("cut", [1, 4, 6])
def test_the_gradients_of_parts_add_up_to_that_of_the_whole(mean: Mean, cut: int):
    whole = gradient(slice(None), mean)
    assert whole != 0
    assert float(gradient(slice(cut), mean) + gradient(slice(cut, None), mean)) == pytest.approx(float(whole), rel=1e-5)


def one_of_two(rank: int, folder: str) -> None:
    """Compute one episode's part, and write the gradient that both processes have together."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    part = slice(0, 4) if rank == 0 else slice(4, 7)
    found = torch.stack([gradient(part, mean) for mean in Mean])
    dist.all_reduce(found)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_with_an_episode_each_find_the_gradient_of_one_with_both(tmp_path):
    mp.spawn(one_of_two, args=(str(tmp_path),), nprocs=2)
    alone = torch.stack([gradient(slice(None), mean) for mean in Mean])
    for rank in range(2):
        assert torch.allclose(torch.load(tmp_path / f"{rank}.pt"), alone, rtol=1e-6)
