"""The workspace's class in the place of the developer's."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from torch import nn
from warpsmith_harness import load
from warpsmith_harness.candidate import copy_state, load_candidate, state
from warpsmith_harness.problems import CandidateProblem

HEADER = "import torch\nfrom torch import nn\n"
BLOCK = """
class Block(nn.Module):
    def __init__(self, dim, bias=True):
        super().__init__()
        self.lin = nn.Linear(dim, dim, bias=bias)

    def forward(self, x, scale=1.0):
        return self.lin(x) * scale
"""
KERNELBENCH = (
    BLOCK.replace("Block", "Model")
    + "\ndef get_inputs():\n    return [torch.rand(4, 16)]\n\ndef get_init_inputs():\n    return [16]\n"
)
SCALED = """
from .scale import FACTOR
class Block(nn.Module):
    def forward(self, x):
        return x * FACTOR
"""
DOUBLED = """
from model import Model
from kernels import twice
class ModelNew(Model):
    def forward(self, x):
        return twice(super().forward(x))
"""


def workspace(tmp_path, name: str, source: str) -> str:
    folder = tmp_path / "workspace"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(HEADER + source)
    return str(folder)


@pytest.fixture
def candidate(make_task, tmp_path):
    """Load a candidate for the block of this file from source."""

    def make(source: str, kernels: types.ModuleType | None = None, **options) -> tuple[load.LoadedTask, nn.Module]:
        task = make_task(BLOCK, **{"init": "64", **options})
        return task, load_candidate(task, workspace(tmp_path, "lone_block.py", source), kernels)

    return make


def bound(**functions) -> types.ModuleType:
    module = types.ModuleType("bound")
    vars(module).update(functions)
    return module


class TestLoading:
    def test_same_arguments_device_dtype_and_mode(self, candidate) -> None:
        _, made = candidate(BLOCK, init="64, bias=False", dtype="bfloat16", training=True)
        assert made.lin.bias is None
        assert made.lin.weight.dtype == torch.bfloat16
        assert made.training

    def test_same_construction_as_the_reference(self, candidate) -> None:
        task, made = candidate(BLOCK)
        assert torch.equal(made.lin.weight, task.reference().lin.weight)

    def test_the_original_stays(self, candidate) -> None:
        task, made = candidate(BLOCK.replace("* scale", "* scale * 2"))
        assert type(made) is not task.cls
        x = torch.randn(2, 64)
        assert torch.allclose(made(x), task.reference()(x) * 2)

    def test_kernels_of_a_lone_file(self, candidate) -> None:
        source = "from lone_block_kernels import scaled\n" + BLOCK.replace(
            "self.lin(x) * scale", "scaled(self.lin(x), scale)"
        )
        task, made = candidate(source, bound(scaled=lambda x, scale: x * scale * 3))
        x = torch.randn(2, 64)
        assert torch.allclose(made(x), task.reference()(x) * 3)

    def test_kernels_beside_a_file_of_a_package(self, write, spec, tmp_path) -> None:
        write("store/__init__.py", "")
        write("store/blocks_kernels/__init__.py", "raise RuntimeError('this landed earlier and must not load')\n")
        write("store/scale.py", "FACTOR = 3.0\n")
        source = HEADER + SCALED
        task = load.load_task(
            spec(write("store/blocks.py", source), module_name="store.blocks", inputs="torch.ones(2)")
        )
        fused = source.replace("x * FACTOR", "triple(x, FACTOR)").replace(
            "FACTOR\n", "FACTOR\nfrom .blocks_kernels import triple\n", 1
        )
        folder = workspace(tmp_path, "blocks.py", fused)
        made = load_candidate(task, folder, bound(triple=lambda x, factor: x * factor))
        assert made(torch.ones(2)).tolist() == [3.0, 3.0]
        assert type(made).__module__ == "store.blocks"
        assert sys.modules["store.blocks_kernels"].triple

    def test_kernelbench(self, write, spec, tmp_path) -> None:
        task = load.load_task(spec(write("7_Task.py", HEADER + KERNELBENCH), "Model"))
        made = load_candidate(task, workspace(tmp_path, "model_new.py", DOUBLED), bound(twice=lambda x: x * 2))
        reference = task.reference()
        copy_state(reference, made)
        (x,), _ = task.inputs()
        assert torch.equal(made(x), reference(x) * 2)

    def test_class_in_the_init_file_of_a_package(self, write, spec, tmp_path) -> None:
        write("crate/inner.py", "FACTOR = 2.0\n")
        source = HEADER + SCALED.replace("scale", "inner")
        described = spec(write("crate/__init__.py", source), module_name="crate", inputs="torch.ones(1)", root=tmp_path)
        task = load.load_task(described)
        made = load_candidate(task, workspace(tmp_path, "__init__.py", source), None)
        assert made(torch.ones(1)).tolist() == [2.0]


class TestFaults:
    @pytest.mark.parametrize(
        ("source", "what", "where"),
        [
            ("class Block(nn.Module:\n    pass\n", "The file does not parse", "lone_block.py:3"),
            ("x = 1 / 0\n", "Importing lone_block.py raises ZeroDivisionError", "lone_block.py:3"),
            ("import sys\nsys.exit(0)\n", "raises SystemExit", "lone_block.py:4"),
            ("from lone_block_kernels import fused\n", "cannot import name 'fused'", "lone_block.py:3"),
            ("class Blok(nn.Module):\n    pass\n", "The file has no class Block; it has Blok.", "lone_block.py"),
            ("Block = 3\n", "The file has no class Block; it has none.", "lone_block.py"),
            (
                "class Block:\n    def __init__(self, dim):\n        pass\n",
                "Block must be a torch.nn.Module",
                "lone_block.py:3",
            ),
            (BLOCK.replace("(self, dim, bias=True)", "(self)"), "takes 1 positional argument", ""),
            (BLOCK.replace("super().__init__()", "raise ValueError('no')"), "raises ValueError: no", "lone_block.py:6"),
            (BLOCK.replace("self, x, scale=1.0", "self"), "Its forward must take (x)", "lone_block.py"),
            (BLOCK.replace("self, x, scale=1.0", "self, x, y"), "Its forward must take (x)", "lone_block.py"),
        ],
    )
    def test_each_is_named_with_its_line(self, candidate, source, what, where) -> None:
        with pytest.raises(CandidateProblem) as caught:
            candidate(source)
        assert what in caught.value.what
        assert caught.value.where == where

    def test_a_missing_file(self, make_task, tmp_path) -> None:
        with pytest.raises(CandidateProblem, match=r"lone_block\.py"):
            load_candidate(make_task(BLOCK, init="64"), str(tmp_path / "nowhere"), None)

    def test_line_inside_a_torch_call_is_the_candidate_s(self, candidate) -> None:
        with pytest.raises(CandidateProblem) as caught:
            candidate(BLOCK.replace("nn.Linear(dim, dim, bias=bias)", "nn.Linear(-dim, dim)"))
        assert caught.value.where == "lone_block.py:7"

    def test_optional_arguments_may_be_dropped(self, candidate) -> None:
        candidate(BLOCK.replace(", scale=1.0", "").replace(" * scale", ""))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.emb.weight
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("table", torch.arange(3.0), persistent=False)


class TestCopyState:
    def test_in_place_by_name(self) -> None:
        source, target = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
        nn.init.normal_(source.weight)
        source.running_mean.fill_(3)
        version, mean = target.weight._version, target.running_mean
        copy_state(source, target)
        assert torch.equal(target.weight, source.weight)
        assert target.weight._version > version
        assert target.running_mean is mean
        assert mean.tolist() == [3.0] * 4

    def test_ties_stay(self) -> None:
        source, target = Tied(), Tied()
        copy_state(source, target)
        assert target.head.weight is target.emb.weight
        assert torch.equal(target.head.weight, source.emb.weight)

    def test_untied_candidates_get_both(self) -> None:
        source, target = Tied(), Tied()
        target.head.weight = nn.Parameter(torch.zeros(10, 4))
        copy_state(source, target)
        assert torch.equal(target.head.weight, target.emb.weight)

    def test_constants_are_not_state(self) -> None:
        assert list(state(Tied())) == ["emb.weight", "head.weight", "scale"]

    def test_lazy_parameters(self) -> None:
        source, target = nn.Linear(3, 5), nn.LazyLinear(5)
        copy_state(source, target)
        x = torch.randn(2, 3)
        assert torch.equal(target(x), source(x))

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            (nn.Linear(4, 4, bias=False), "it lacks bias"),
            (nn.BatchNorm1d(4), "has running_mean, running_var, num_batches_tracked, which the original has not"),
            (nn.Linear(4, 5), r"weight must be torch.float32 \[4, 4\], and is torch.float32 \[5, 4\]"),
            (nn.Linear(4, 4).half(), "weight must be torch.float32"),
        ],
    )
    def test_differences_are_named(self, target, message) -> None:
        with pytest.raises(CandidateProblem, match=message):
            copy_state(nn.Linear(4, 4), target)
