"""Denominators of a whole batch: however it is cut, and over two processes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.trainer.maths.test_losses import ADVANTAGES, LENGTHS, LOGP, OLD
from trainer.maths.aggregate import Mean, Totals, token_weights
from trainer.maths.losses import policy_loss
from trainer.maths.whitening import Moments, whiten


def test_an_episodes_mean_is_one_over_t():
    assert token_weights(LENGTHS, Mean.EPISODE).tolist() == pytest.approx([1 / 8] * 4 + [1 / 6] * 3)


def test_the_mean_over_tokens_counts_each_the_same():
    assert token_weights(LENGTHS, Mean.TOKEN).tolist() == pytest.approx([1 / 7] * 7)


def gradient(part: slice, lengths: torch.Tensor, mean: Mean, totals: Totals, moments: Moments) -> torch.Tensor:
    """The gradient of one shared parameter by a part of the batch."""
    shift = torch.zeros((), requires_grad=True)
    loss = policy_loss(LOGP[part] + shift, OLD[part], whiten(ADVANTAGES[part], moments), dual=3.0)
    (loss * token_weights(lengths, mean, totals)).sum().backward()
    assert shift.grad is not None
    return shift.grad


@pytest.mark.parametrize("mean", list(Mean))
def test_the_gradients_of_parts_add_up_to_that_of_the_whole(mean: Mean):
    totals, moments = Totals.of(LENGTHS), Moments.of(ADVANTAGES)
    whole = gradient(slice(None), LENGTHS, mean, totals, moments)
    parts = [
        gradient(slice(0, 4), LENGTHS[:1], mean, totals, moments),
        gradient(slice(4, 7), LENGTHS[1:], mean, totals, moments),
    ]
    assert whole != 0
    assert float(sum(parts)) == pytest.approx(float(whole), rel=1e-6)


def one_of_two(rank: int, folder: str) -> None:
    """Hold one episode, know nothing of the other, and write the gradient of both."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    part = slice(0, 4) if rank == 0 else slice(4, 7)
    lengths = LENGTHS[rank : rank + 1]
    totals, moments = Totals.of(lengths).over_processes(), Moments.of(ADVANTAGES[part]).over_processes()
    found = torch.stack([gradient(part, lengths, mean, totals, moments) for mean in Mean])
    dist.all_reduce(found)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_with_an_episode_each_find_the_gradient_of_one_with_both(tmp_path):
    mp.spawn(one_of_two, args=(str(tmp_path),), nprocs=2)
    totals, moments = Totals.of(LENGTHS), Moments.of(ADVANTAGES)
    alone = torch.stack([gradient(slice(None), LENGTHS, mean, totals, moments) for mean in Mean])
    for rank in range(2):
        assert torch.allclose(torch.load(tmp_path / f"{rank}.pt"), alone, rtol=1e-6)
