"""Calls every kind of module as a developer's script would, and keeps what came out for the test to compare."""

from __future__ import annotations

import copy
import io
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from net import kinds
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

warnings.simplefilter("ignore")


@dataclass
class Config:
    width: int = 16
    scale: float = 0.5


class Here(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.width))

    def forward(self, x):
        return x * self.weight


def run():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    plain = kinds.Block(Config()).eval()
    plain.drop.p = 0.25
    with torch.no_grad():
        for rows in (4, 6, 6):
            plain(torch.randn(rows, 16), mask=torch.rand(rows, 16) > 0.5, gain=3.0)
    with torch.inference_mode():
        picture = kinds.Picture().eval().to(memory_format=torch.channels_last)
        picture(torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))
        kinds.InPlace()(torch.randn(4, 4))
        kinds.Wide(8, 4).half().requires_grad_(False)(torch.randn(2, 8).half())
    frozen = kinds.Frozen(8)
    frozen.norm.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        frozen(torch.randn(4, 8)).sum().backward()
    hooked = kinds.parametrized().eval()
    hooked.register_forward_hook(lambda module, args, output: None)
    tied = kinds.Tied().eval()
    tied.head.weight = tied.table.weight
    lazy = kinds.Lazy(4).eval()
    with torch.no_grad():
        hooked(torch.randn(3, 8))
        tied(torch.randint(0, 20, (2, 9)))
        features = torch.randn(2, 6)
        for _ in range(2):
            lazy(features)
        wrapped()
        copies()
        graphs()
        refused()
        Here(Config())(torch.randn(5, 16))


def wrapped():
    compiled = torch.compile(kinds.Compiled(Config()).eval(), backend="eager")
    compiled(torch.randn(2, 16))
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        nn.parallel.DistributedDataParallel(kinds.Parallel(Config())).eval()(torch.randn(2, 16))
        torch.distributed.destroy_process_group()


def copies():
    copy.deepcopy(kinds.Copied(Config(scale=0.125))).eval()(torch.randn(2, 16))
    kept = io.BytesIO()
    torch.save(kinds.Unpickled(Config(scale=0.125)).eval(), kept)
    kept.seek(0)
    torch.load(kept, weights_only=False)(torch.randn(2, 16))
    grown = kinds.Grown(Config()).eval()
    grown.proj = nn.Sequential(grown.proj, nn.Linear(16, 16))
    grown(torch.randn(2, 16))


def graphs():
    for nodes in (10, 12, 12):
        ends = torch.stack([torch.randint(0, nodes, (30,)), torch.randint(0, 3, (30,))])
        kinds.Edges()(torch.randn(nodes, 4), ends)
    x = torch.randn(3, 4)
    kinds.Twice()(x, x)


def refused():
    class Local(nn.Module):
        def forward(self, x):
            return x

    Local()(torch.randn(2))
    kinds.Odd()(torch.randn(2), cache=object())
    kinds.OddBack()(torch.randn(2))
    kinds.OwnKind()(torch.randn(2).as_subclass(kinds.OwnTensor))


def main():
    sys.path.insert(0, os.environ["HARNESS"])
    from recorder.capture import Capture
    from recorder.constructors import note_constructors
    from recorder.portrait import class_key

    folder, outputs = Path(sys.argv[1]), {}
    note_constructors()
    capture = Capture(folder, None, 1 << 26)
    register_module_forward_pre_hook(lambda module, args: capture.before(module, args))

    def after(module, args, output):
        capture.after(module, output)
        if type(output) is torch.Tensor:
            outputs.setdefault((class_key(module).partition(":")[2], tuple(output.shape)), output.detach().clone())

    register_module_forward_hook(after, always_call=True)
    run()
    capture.finish([*capture.classes()])
    torch.save(outputs, folder / "outputs.pt")


if __name__ == "__main__":
    main()
