"""A landing runs on every layer that differs in nothing that matters, and on no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agent.landing import land, plan
from agent.landing.mentions import mentioned_names
from agent.landing.verified import VerifiedInputs
from sandbox.task import TaskSpec
from tests.agent.landing.example import run, verdict

HARNESS = Path(__file__).parents[3] / "sandbox/harness"
LAYER = """\
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Config:
    eps: float = 0.5
    names: list = field(default_factory=lambda: ["a"])


class Layer(nn.Module):
    def __init__(self, layer_idx: int = 0, config=None, act=torch.tanh, slope: int = 2, part=nn.ReLU):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.layer_idx, self.config, self.act = layer_idx, config or Config(), act
        self.slope, self.window, self.sizes = slope, None, [1, 2]
        self.part = part()

    def set_slope(self, slope):
        self.slope = slope

    def forward(self, x):
        y = self.part(self.act(x * self.weight * self.slope)) + self.config.eps * self.sizes[1]
        return y if getattr(self, "win" + "dow") is None else y[: self.window]
"""
BODY = LAYER[LAYER.index("        y = self.part") :]
REWRITTEN = LAYER.replace(
    "from torch import nn\n", "from torch import nn\n\nfrom .layers_kernels import layer\n"
).replace(
    BODY, "        out = torch.empty_like(x)\n        layer(x, self.weight, out, x.numel())\n        return out\n"
)
KERNEL = """\
#include <cmath>
#include <cstdint>
extern "C" int layer(const float* x, const float* weight, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = std::fmax(std::tanh(2 * x[i] * weight[i % 8]), 0.0f) + 1.0f;
    return 0;
}
"""
SIGNATURE = ("x: float32 [4, 8] contiguous", "weight: float32 [8] contiguous", "output: float32 [4, 8] contiguous")
ATTRIBUTES = {"": {"layer_idx": "0", "slope": "2", "window": "None"}, "part": {"inplace": "False"}}
READS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from warpsmith_harness.load import load_task
from warpsmith_harness.reads import attribute_reads
print(json.dumps(attribute_reads(load_task(json.loads(sys.argv[2])))))
"""


def reads_of(spec: TaskSpec) -> dict[str, Any]:
    """What the original's forward reads, as the trusted process looks at it."""
    command = [sys.executable, "-c", READS, str(HARNESS), json.dumps(spec.to_json())]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("layers") / "project"
    (root / "shop").mkdir(parents=True)
    (root / "shop/__init__.py").write_text("")
    path = root / "shop/layers.py"
    path.write_text(LAYER)
    spec = TaskSpec("module", path, "Layer", "shop.layers", root, Path(sys.executable), inputs="torch.randn(4, 8)")
    told = VerifiedInputs.of(spec, SIGNATURE, LAYER.encode(), reads=reads_of(spec))
    state = {"layers.py": REWRITTEN.encode(), "kernels/layer.cpp": KERNEL.encode()}
    verified = replace(told, init=None, attributes=ATTRIBUTES)
    land(plan(spec, {"layers.py": LAYER.encode()}, state, verdict(), verified))
    return root


SCRIPT = """
from shop import layers_kernels
from shop.layers import Config, Layer

x = torch.randn(4, 8)

def ran(module, *reason):
    before = layers_kernels.counts()
    with torch.no_grad():
        found = module(x)
        wanted = module.part(module.act(x * module.weight * module.slope)) + module.config.eps * module.sizes[1]
    after = layers_kernels.counts()
    torch.testing.assert_close(found, wanted if module.window is None else wanted[: module.window])
    new = [each for each in after["reasons"] if after["reasons"][each] > before["reasons"].get(each, 0)]
    assert new == [*reason], (new, reason)
    assert after["fused"] - before["fused"] == (not reason), after
"""


def test_layers_that_differ_in_what_nothing_reads_run_the_kernels_and_others_do_not(root: Path) -> None:
    """Something is read also by a name that is not written, of a configuration, and by what its parts are."""
    code = """
    for layer_idx in range(3):
        ran(Layer(layer_idx).eval())
    assert layers_kernels.counts()["fused"] == 3, layers_kernels.counts()
    ran(Layer(slope=3).eval(), "its slope is not 2")
    ran(Layer(config=Config(eps=0.25)).eval(), "its config.eps is not 0.5")
    ran(Layer(config=Config(names=["b"])).eval())
    ran(Layer(act=torch.sigmoid).eval(), f"its act.__qualname__ is not {torch.tanh.__qualname__!r}")
    ran(Layer(part=nn.Sigmoid).eval(), "its part.__class__.__qualname__ is not 'ReLU'")
    layer = Layer().eval()
    layer.window = 2
    ran(layer, "its window was changed")

    layer = Layer().eval()
    ran(layer)
    ran(layer)
    layer.config.eps = 0.25
    ran(layer, "its config.eps is not 0.5")
    layer.config.eps = 0.5
    layer.sizes[1] = 3
    ran(layer, "its sizes is not [1, 2]")
    layer.sizes[1] = 2
    ran(layer)
    layer.set_slope(3)
    ran(layer, "its slope is not 2")
    """
    run(root, SCRIPT + dedent(code))


def test_compiled_and_exported_they_are_told_apart_alike(root: Path) -> None:
    code = """
    if (int(torch.__version__.split(".")[0]), int(torch.__version__.split(".")[1])) >= (2, 11):
        with torch.no_grad():
            for layer, fused in ((Layer(1), 1), (Layer(2), 1), (Layer(config=Config(eps=0.25)), 0)):
                layer.eval()
                before = layers_kernels.counts()["launches"]
                wanted = torch.relu(torch.tanh(x * layer.weight * 2)) + 2 * layer.config.eps
                torch.testing.assert_close(torch.compile(layer, backend="eager")(x), wanted)
                assert layers_kernels.counts()["launches"] - before == fused, layers_kernels.counts()
            exported = torch.export.export(Layer(1).eval(), (x,)).module()
            before = layers_kernels.counts()["launches"]
            exported(x)
            assert layers_kernels.counts()["launches"] - before == 1
    """
    run(root, SCRIPT + dedent(code))


class TestNames:
    @staticmethod
    def of(forward: str, before: str = LAYER) -> frozenset[str] | None:
        return mentioned_names(LAYER.encode(), before.replace(BODY, forward).encode(), "Layer")

    def test_those_outside_of_constructors_count(self) -> None:
        names = self.of("        return x * self.slope * getattr(self, 'window', 1)\n")
        assert names is not None
        assert {"slope", "window"} <= names
        assert "layer_idx" not in names

    def test_so_do_those_of_what_is_reached(self) -> None:
        helper = "\n    def twice(self, x):\n        return x * self.layer_idx\n"
        names = self.of("        return self.twice(x)\n" + helper)
        assert names is not None
        assert "layer_idx" in names

    @pytest.mark.parametrize(
        "forward",
        [
            "        return elsewhere(self, x)\n",
            "        return x * vars(self)['slope']\n",
            "        return x * getattr(self, x)\n",
            "        return x * self.__dict__['slope']\n",
            "        return super().forward(x)\n",
            "        return self.inherited(x)\n",
        ],
    )
    def test_what_is_not_written_counts_as_any(self, forward: str) -> None:
        assert self.of(forward) is None

    def test_another_constructor_counts_as_any(self) -> None:
        assert (
            self.of(BODY, LAYER.replace("self.part = part()", "self.part, self.kind = part(), layer_idx % 2")) is None
        )


def test_an_attribute_of_a_part_goes_free_only_where_it_is_called_or_not_named() -> None:
    told = VerifiedInputs(
        signature=(),
        constants={},
        init=None,
        device="cpu",
        training=False,
        attributes={"": {"layer_idx": "0"}, "norm": {"eps": "1e-05"}},
        reads={"any": "", "seen": {"": {"forward": ""}}},
    )
    assert told.held_to(frozenset()).attributes == {}
    assert told.held_to(frozenset({"norm"})).attributes == {"norm": {"eps": "1e-05"}}
    assert told.held_to(frozenset({"layer_idx"})).attributes == {"": {"layer_idx": "0"}}
    assert told.held_to(None).attributes == told.attributes
    assert replace(told, reads=None).held_to(frozenset()).attributes == told.attributes
