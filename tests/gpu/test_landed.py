"""Landed modules on a GPU: streams, graphs, other devices, compilers, autocast, training, and the verdict that gates them."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest

from agent.landing import VerifiedInputs, land, landed_form
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.devices import list_gpus, visible_gpus
from tests.agent.landing import trained
from tests.agent.landing.example import (
    CANDIDATE,
    CHECKS,
    CUDA_KERNEL,
    ORIGINAL,
    SIGNATURE,
    accepted,
    make_project,
    planned,
    run,
    verdict,
)

pytestmark = pytest.mark.gpu

ON_GPU = """
m, x = m.cuda(), x.cuda()
"""


def sm() -> str:
    return f"sm_{list_gpus()[0].sm}"


def state() -> dict[str, bytes]:
    """The state that lands, with a CUDA kernel in the place of the C++ one."""
    files = accepted()
    del files["kernels/fused_block.cpp"]
    return {**files, "kernels/fused_block.cu": CUDA_KERNEL.encode()}


def on_gpu(root: Path, *code: str) -> str:
    """Run code in the developer's project, with the GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(str(index) for index in range(len(list_gpus()))))
    return run(root, "".join(map(dedent, code)), CUDA_VISIBLE_DEVICES=visible)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landed") / "project"
    spec = make_project(root).with_changes(device="cuda:0")
    land(planned(spec, state(), sm=sm()))
    return root


@pytest.fixture(scope="module")
def landed_training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trained") / "project"
    spec = trained.make_project(root).with_changes(device="cuda:0")
    land(trained.planned(spec, sm=sm()))
    return root


def test_calls_graphs_streams_and_what_was_not_verified(landed: Path) -> None:
    code = """
    with torch.no_grad():
        for _ in range(3):
            ran("fused", lambda: m(x), original(m, x))
        ran("original", lambda: m(x[:2]), original(m, x[:2]))
        ran("original", lambda: Block(8).eval()(x.cpu()), original(Block(8), x.cpu()))
        with torch.autocast("cuda", dtype=torch.float16):
            ran("original", lambda: m(x), original(m, x))
        ran("fused", lambda: m(x), original(m, x))
        with torch.inference_mode():
            ran("fused", lambda: m(x), original(m, x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = m(x).value
        x.mul_(2)
        graph.replay()
        torch.testing.assert_close(y, original(m, x))
        fresh = Block(8).eval().cuda()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # the first call of an instance, examined while it is captured
            y = fresh(x).value
        graph.replay()
        torch.testing.assert_close(y, original(fresh, x))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            later = x + 1
            ran("fused", lambda: m(later), original(m, later))
        torch.cuda.synchronize()
        m.half()
        ran("original", lambda: m(x.half()), original(m, x.half()))
        m.float()
        ran("fused", lambda: m(x), original(m, x))
    m(x).value.sum().backward()
    assert m.weight.grad.abs().sum() > 0
    """
    on_gpu(landed, CHECKS, ON_GPU, code)


def test_compilers_see_through(landed: Path) -> None:
    code = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = m
        def forward(self, x):
            return self.block(x).value + 1
    net = Net().eval()
    with torch.no_grad():
        for mode in ("default", "reduce-overhead"):
            compiled = torch.compile(net, fullgraph=True, mode=mode)
            for _ in range(4):
                torch.testing.assert_close(compiled(x), original(m, x) + 1)
            torch.testing.assert_close(compiled(x[:3].clone()), original(m, x[:3]) + 1)
        assert blocks_kernels.counts()["launches"] > 0
        exported = torch.export.export(net, (x,))
        assert "fused_block" in str(exported.graph)
        torch.testing.assert_close(exported.module()(x), original(m, x) + 1)
    """
    on_gpu(landed, CHECKS, ON_GPU, code)


def test_another_device_than_the_current_one(landed: Path) -> None:
    if len(visible_gpus()) < 2:
        pytest.skip("there is one GPU")
    code = """
    with torch.no_grad():
        ran("fused", lambda: m(x), original(m, x))
        m.to("cuda:1")
        there = x.to("cuda:1")
        assert torch.cuda.current_device() == 0
        ran("fused", lambda: m(there), original(m, there))
        assert torch.cuda.current_device() == 0 and m(there).value.device.index == 1
        torch.cuda.set_device(1)
        ran("fused", lambda: m(there), original(m, there))
    """
    on_gpu(landed, CHECKS, ON_GPU, code)


def test_training_with_gradients_of_its_own(landed_training: Path) -> None:
    code = """
    m = m.cuda()
    x = x.detach().cuda().requires_grad_()
    gradients_are_right(m)
    assert torch.autograd.gradcheck(m, (x,))
    before = gains_kernels.counts()["launches"]
    gradients_are_right(torch.compile(m, fullgraph=True))
    counted = gains_kernels.counts()
    assert counted["launches"] == before + 2 and counted["original"] == 0, counted
    """
    on_gpu(landed_training, trained.CHECKS, code)


DDP = """
    import os
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch import nn
    from shop import gains_kernels
    from shop.gains import Gain

    def work(rank):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", rank=rank, world_size=2)
        m = nn.parallel.DistributedDataParallel(Gain(8).cuda(), device_ids=[rank])
        x = torch.full((4, 8), float(rank + 1), dtype=torch.float64, device="cuda")
        m(x).sum().backward()
        torch.testing.assert_close(m.module.weight.grad, torch.full((8,), (4 + 16) / 2, dtype=torch.float64, device="cuda"))
        assert gains_kernels.counts()["fused"] == 1 and gains_kernels.counts()["original"] == 0
        dist.destroy_process_group()

    if __name__ == "__main__":
        mp.spawn(work, nprocs=2)
"""


def test_data_parallel_training(landed_training: Path) -> None:
    if len(visible_gpus()) < 2:
        pytest.skip("there is one GPU")
    script = landed_training / "ddp.py"
    script.write_text(dedent(DDP))
    on_gpu(landed_training, f"import runpy\nrunpy.run_path({str(script)!r}, run_name='__main__')")


def test_the_verdict_of_what_lands(tmp_path: Path) -> None:
    """The folder is judged as it will lie in the project; its checks, which know another mode, refuse the second."""
    tensors = ORIGINAL.replace("-> Result", "-> torch.Tensor").replace("return Result(y)", "return y")
    candidate = CANDIDATE.replace("-> Result", "-> torch.Tensor").replace("return Result(out)", "return out")
    spec = make_project(tmp_path / "project", tensors).with_changes(device="cuda:0")
    files = {**state(), "blocks.py": candidate.encode()}
    original = {"blocks.py": tensors.encode()}
    workspace = tmp_path / "workspace"
    for name, data in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(data)
    forms = [
        landed_form(spec, original, files, verdict(sm=sm()), VerifiedInputs.of(each, SIGNATURE, tensors.encode()))
        for each in (spec, spec.with_changes(training=True))
    ]
    with Judge(spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch") as judge:
        plain = judge.check(workspace, "full")
        good, bad = (judge.check(workspace, "full", landed=form) for form in forms)
    for name, one in (("workspace", plain), ("landed", good)):
        times = one.profile and (one.profile.device_us, one.profile.latency_us)
        print(f"  {name}: reward {one.reward}, {one.reason} device and latency: {times}")
    assert plain.correct, plain.reason
    assert good.correct, good.reason
    assert not bad.correct
    assert "runs the original code: it is in eval mode" in bad.reason
