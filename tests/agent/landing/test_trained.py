"""A landed module that is trained brings its own backward: in eager mode, compiled, checkpointed, and in two processes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from agent.landing import land
from tests.agent.landing.example import run
from tests.agent.landing.trained import CHECKS, make_project, planned


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trained") / "project"
    land(planned(make_project(root)))
    return root


def test_gradients_are_the_kernels_own(landed: Path) -> None:
    code = """
    from torch.utils.checkpoint import checkpoint
    gradients_are_right(m)
    assert torch.autograd.gradcheck(m, (x,))
    gradients_are_right(m.eval())
    gradients_are_right(nn.Sequential(m))
    gradients_are_right(lambda x: checkpoint(m, x, use_reentrant=False))
    gradients_are_right(lambda x: m(x) + m(x), 2)
    m.weight.requires_grad_(False)
    x.grad = None
    m(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x * m.weight)
    x.grad = None
    ways = torch.randn_like(x).t().contiguous()
    (m(x).t() * ways).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x * m.weight * ways.t())
    m.weight.requires_grad_()
    counted = gains_kernels.counts()
    assert counted["original"] == 0 and counted["launches"] > counted["fused"] > 0, counted
    optimiser = torch.optim.SGD(m.parameters(), 0.1)
    before = m.weight.detach().clone()
    gradients_are_right(m)
    optimiser.step()
    torch.testing.assert_close(m.weight, before - 0.1 * (x * x).sum(0))
    """
    run(landed, CHECKS + dedent(code))


def test_what_has_no_gradient_says_so_instead_of_giving_a_wrong_one(landed: Path) -> None:
    code = """
    try:
        torch.autograd.gradgradcheck(m, (x,))
    except RuntimeError as error:
        assert "gain_backward has no gradient" in str(error), error
    else:
        raise AssertionError("a second derivative was made up")
    grad = torch.func.grad(lambda w: torch.func.functional_call(m, {"weight": w}, (x,)).sum())(m.weight.detach())
    torch.testing.assert_close(grad, (x * x).sum(0))
    assert gains_kernels.counts()["reasons"] == {"it is traced or transformed": 1}
    """
    run(landed, CHECKS + dedent(code))


@pytest.mark.long
def test_a_compiler_takes_both_directions(landed: Path) -> None:
    code = """
    gradients_are_right(torch.compile(m, fullgraph=True))
    counted = gains_kernels.counts()
    expected = (2, 0) if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9) else (0, 1)
    assert (counted["launches"], counted["original"]) == expected, counted
    """
    run(landed, CHECKS + dedent(code))


def test_two_processes_train_together(landed: Path) -> None:
    script = """
    import os, sys
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch import nn
    from shop import gains_kernels
    from shop.gains import Gain

    def work(rank, store):
        dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{store}")
        module = nn.parallel.DistributedDataParallel(Gain(8))
        x = torch.full((4, 8), float(rank + 1), dtype=torch.float64)
        module(x).sum().backward()
        expected = torch.full((8,), (4 + 16) / 2, dtype=torch.float64)
        torch.testing.assert_close(module.module.weight.grad, expected)
        counted = gains_kernels.counts()
        assert (counted["fused"], counted["launches"], counted["original"]) == (1, 2, 0), counted
        dist.destroy_process_group()

    if __name__ == "__main__":
        mp.spawn(work, (sys.argv[1],), nprocs=2)
    """
    (landed / "ddp.py").write_text(dedent(script))
    store = landed.parent / "store"
    code = f"""
    import runpy
    sys.argv = ["ddp.py", {str(store)!r}]
    runpy.run_path("ddp.py", run_name="__main__")
    """
    run(landed, dedent(code), GLOO_SOCKET_IFNAME="lo")
