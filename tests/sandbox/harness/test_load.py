"""Loading the developer's module: every form a task can take, and every way it can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from warpsmith_harness import load, values
from warpsmith_harness.problems import TaskProblem

HARNESS = Path(load.__file__).parents[1]
HEADER = "import torch\nfrom torch import nn\n"

LINEAR = """
class Block(nn.Module):
    def __init__(self, dim, bias: bool = True):
        super().__init__()
        self.lin = nn.Linear(dim, dim, bias=bias)

    def forward(self, x, scale=1.0):
        return self.lin(x) * scale
"""

KERNELBENCH = """
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.lin = nn.Linear(features, features)

    def forward(self, x):
        return self.lin(x)

def get_inputs():
    return [torch.rand(4, 16)]

def get_init_inputs():
    return [16]
"""


class TestArguments:
    def test_expressions(self, make_task) -> None:
        task = make_task(LINEAR, init="dim=64, bias=False", inputs="torch.randn(8, 64), scale=math.pi")
        args, kwargs = task.inputs()
        assert args[0].shape == (8, 64)
        assert kwargs["scale"] == pytest.approx(3.14159, abs=1e-4)
        assert task.reference().lin.bias is None

    def test_names_of_the_file_are_in_scope(self, make_task) -> None:
        task = make_task("WIDTH = 32\n" + LINEAR, init="WIDTH", inputs="torch.randn(2, WIDTH)")
        assert task.forward(task.reference(), *task.inputs()).shape == (2, 32)

    @pytest.mark.parametrize(
        ("returned", "args", "kwargs"),
        [
            ("torch.ones(8, 64)", 1, []),
            ("(torch.ones(8, 64), 2.0)", 2, []),
            ("[torch.ones(8, 64)]", 1, []),
            ("{'x': torch.ones(8, 64), 'scale': 2.0}", 0, ["scale", "x"]),
            ("((torch.ones(8, 64),), {'scale': 2.0})", 1, ["scale"]),
        ],
    )
    def test_factory_of_the_file(self, make_task, returned, args, kwargs) -> None:
        source = LINEAR + f"\ndef make():\n    return {returned}\n"
        task = make_task(source, init="64", inputs="", factory="make")
        got_args, got_kwargs = task.inputs()
        assert (len(got_args), sorted(got_kwargs)) == (args, kwargs)
        assert task.forward(task.reference(), got_args, got_kwargs).shape == (8, 64)

    def test_factory_of_another_module(self, make_task, write) -> None:
        write("helpers/__init__.py", "")
        write("helpers/data.py", "import torch\ndef batch():\n    return torch.randn(3, 64)\n")
        task = make_task(LINEAR, init="64", inputs="", factory="helpers.data:batch")
        assert task.inputs()[0][0].shape == (3, 64)

    def test_own_functions_of_the_file(self, make_task) -> None:
        source = (
            LINEAR
            + "\ndef get_inputs():\n    return [torch.randn(5, 7)]\n\ndef get_init_inputs():\n    return [[7], {'bias': False}]\n"
        )
        task = make_task(source, inputs="")
        assert task.reference().lin.bias is None
        assert task.inputs()[0][0].shape == (5, 7)

    def test_missing_arguments_are_told_with_what_to_type(self, make_task) -> None:
        with pytest.raises(TaskProblem) as caught:
            make_task(LINEAR, inputs="")
        assert caught.value.what == "The constructor of Block needs dim and the forward of Block needs x."
        assert '--init "dim=64" --inputs "torch.randn(8, 64)"' in caught.value.next_step
        assert caught.value.where.endswith("lone_block.py:4")

    def test_missing_forward_arguments_only(self, make_task) -> None:
        source = "class Block(nn.Module):\n    def forward(self, input_ids, *, mask):\n        return mask\n"
        with pytest.raises(TaskProblem) as caught:
            make_task(source, inputs="")
        assert caught.value.what == "The forward of Block needs input_ids, mask."
        assert '--inputs "torch.randint(0, 100, (8, 64)), mask=torch.randn(8, 64)"' in caught.value.next_step
        assert caught.value.where.endswith(":4")

    @pytest.mark.parametrize(
        ("option", "text", "expected"),
        [
            ("init", "64,,", "--init '64,,' does not parse"),
            ("inputs", "torch.randn(8", "--inputs 'torch.randn(8' does not parse"),
            ("inputs", "torch.randn(8, WIDTH)", "NameError: name 'WIDTH' is not defined"),
            ("factory", "nothing", "has no function nothing"),
            ("factory", "no_such_package.data:batch", "No module named 'no_such_package'"),
        ],
    )
    def test_bad_options(self, make_task, option, text, expected) -> None:
        options = {"init": "64", "inputs": "" if option == "factory" else "torch.randn(8, 64)", option: text}
        task = make_task(LINEAR, **options)
        make = task.reference if option == "init" else task.inputs
        with pytest.raises(TaskProblem) as caught:
            make()
        assert expected in caught.value.what
        assert caught.value.where == f"--{option}"
        assert caught.value.next_step

    def test_unknown_dtype(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="'int33' is not a floating dtype"):
            make_task(LINEAR, init="64", dtype="int33")


class TestInstances:
    def test_two_references_agree(self, make_task) -> None:
        source = """
        import random
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4))
                self.order = torch.randperm(100)
                self.pick = random.random()
            def forward(self, x):
                return x * self.weight
        """
        task = make_task(source, inputs="torch.randn(2, 4)")
        one, two = task.reference(), task.reference()
        assert torch.equal(one.weight, two.weight)
        assert torch.equal(one.order, two.order)
        assert one.pick == two.pick

    def test_construction_leaves_the_generators_alone(self, make_task) -> None:
        task = make_task(LINEAR, init="64")
        before = torch.get_rng_state()
        task.reference()
        task.inputs()
        assert torch.equal(torch.get_rng_state(), before)

    def test_dtype_casts_the_module_and_floating_inputs_only(self, make_task) -> None:
        task = make_task(LINEAR, init="64", inputs="torch.randn(8, 64), torch.arange(3)", dtype="bfloat16")
        args, _ = task.inputs()
        assert [arg.dtype for arg in args] == [torch.bfloat16, torch.int64]
        assert task.reference().lin.weight.dtype == torch.bfloat16

    def test_declared_half_precision_is_a_cast(self, make_task) -> None:
        assert make_task(LINEAR, init="64", precision="fp16").reference().lin.weight.dtype == torch.float16

    @pytest.mark.parametrize("training", [True, False])
    def test_mode(self, make_task, training) -> None:
        assert make_task(LINEAR, init="64", training=training).reference().training is training

    def test_lazy_parameters_are_made(self, make_task) -> None:
        source = """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.LazyLinear(8)
            def forward(self, x):
                return self.lin(x)
        """
        assert make_task(source).reference().lin.weight.shape == (8, 64)


class TestInputs:
    def test_every_call_gives_other_values(self, make_task) -> None:
        task = make_task(LINEAR, init="64")
        assert not torch.equal(task.inputs()[0][0], task.inputs()[0][0])

    def test_a_factory_that_seeds_itself_gives_other_values(self, make_task) -> None:
        source = LINEAR + "\ndef make():\n    torch.manual_seed(0)\n    return torch.randn(8, 64)\n"
        task = make_task(source, init="64", inputs="", factory="make")
        drawn = [task.inputs()[0][0] for _ in range(3)]
        assert not torch.equal(drawn[0], drawn[1])
        assert not torch.equal(drawn[1], drawn[2])

    def test_constants_give_other_values_and_indices_stay(self, make_task) -> None:
        task = make_task(LINEAR, init="64", inputs="torch.ones(8, 64), torch.arange(5)")
        task.inputs()
        (x, positions), _ = task.inputs()
        assert not torch.equal(x, torch.ones(8, 64))
        assert torch.equal(positions, torch.arange(5))

    def test_two_processes_draw_different_values(self, make_task) -> None:
        torch.manual_seed(0)
        first = make_task(LINEAR, init="64").inputs()[0][0]
        torch.manual_seed(0)
        assert not torch.equal(first, make_task(LINEAR, init="64").inputs()[0][0])


class TestKernelBench:
    def test_loads_and_runs(self, write, spec) -> None:
        task = load.load_task(spec(write("23_Linear.py", HEADER + KERNELBENCH), "Model"))
        assert task.forward(task.reference(), *task.inputs()).shape == (4, 16)
        assert sys.modules["model"] is task.module

    def test_get_inputs_is_missing(self, write, spec) -> None:
        source = KERNELBENCH.replace("get_inputs", "make_inputs")
        with pytest.raises(TaskProblem, match="forward of Model needs x"):
            load.load_task(spec(write("task.py", HEADER + source), "Model"))


class TestProject:
    def test_relative_imports(self, write, spec) -> None:
        write("shop/__init__.py", "")
        write("shop/layers/__init__.py", "from .blocks import Block\n")
        write("shop/scale.py", "FACTOR = 3.0\n")
        path = write(
            "shop/layers/blocks.py",
            "from torch import nn\nfrom ..scale import FACTOR\n"
            "class Block(nn.Module):\n    def forward(self, x):\n        return x * FACTOR\n",
        )
        task = load.load_task(spec(path, module_name="shop.layers.blocks", inputs="torch.ones(3)"))
        assert task.module.__name__ == "shop.layers.blocks"
        assert sys.modules["shop.layers.blocks"] is task.module
        assert task.forward(task.reference(), (torch.ones(2),), {}).tolist() == [3.0, 3.0]

    def test_class_in_the_init_file_of_a_package(self, write, spec, tmp_path) -> None:
        write("boxed/inner.py", "FACTOR = 2.0\n")
        path = write(
            "boxed/__init__.py",
            "from torch import nn\nfrom .inner import FACTOR\n"
            "class Block(nn.Module):\n    def forward(self, x):\n        return x * FACTOR\n",
        )
        described = spec(path, module_name="boxed", inputs="torch.ones(3)", root=tmp_path)
        task = load.load_task(described)
        assert task.forward(task.reference(), (torch.ones(1),), {}).tolist() == [2.0]

    def test_packages_named_like_ours(self, write, tmp_path) -> None:
        """A fresh interpreter, as the harness is started: the project's own app, agent, sandbox, skills and trainer."""
        for name in ("app", "agent", "sandbox", "skills", "trainer"):
            write(f"{name}/__init__.py", f"WHO = 'theirs: {name}'\n")
        path = write(
            "app/models/blocks.py",
            HEADER + "import agent, sandbox, skills, trainer\nfrom sandbox import WHO\nfrom .. import WHO as APP\n"
            "class Block(nn.Module):\n    def forward(self, x):\n        return x.cumsum(0)\n",
        )
        write("app/models/__init__.py", "")
        described = {
            "kind": "module", "path": str(path), "class_name": "Block", "module_name": "app.models.blocks",
            "root": str(tmp_path), "init": "", "inputs": "torch.randn(4)", "factory": "", "dtype": "", "training": False,
            "device": "cpu", "precision": "auto", "policy": "own-kernels", "tolerance": "budget",
        }  # fmt: skip
        script = f"""
import json, sys
sys.path[0] = {str(HARNESS)!r}
from warpsmith_harness import load, original
sys.path.remove({str(HARNESS)!r})
task = load.load_task(json.loads({json.dumps(described)!r}))
original.accept(task)
print(json.dumps([task.module.WHO, task.module.APP, task.module.trainer.WHO]))
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path.parent, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["theirs: sandbox", "theirs: app", "theirs: trainer"]

    def test_loading_runs_no_tensor_operation_and_starts_no_thread(self, write, tmp_path) -> None:
        """A process that loads a task must be able to fork: torch's pool of threads may not exist yet."""
        path = write("plain.py", HEADER + "class Block(nn.Module):\n    def forward(self, x):\n        return x\n")
        script = f"""
import sys, threading, os
sys.path[0] = {str(HARNESS)!r}
import torch
threads = len(os.listdir("/proc/self/task"))
from torch.utils._python_dispatch import TorchDispatchMode
class Refuse(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise SystemExit(f"ran {{func}}")
from warpsmith_harness import load
spec = dict(kind="module", path={str(path)!r}, class_name="Block", module_name="plain", root={str(tmp_path)!r}, init="",
    inputs="torch.randn(2)", factory="", dtype="", training=False, device="cpu", precision="tf32", tolerance="budget")
with Refuse():
    load.load_task(spec)
assert len(os.listdir("/proc/self/task")) == threads
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


class TestFaults:
    def test_does_not_parse(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="does not parse") as caught:
            make_task("class Block(nn.Module:\n    pass\n")
        assert caught.value.where.endswith("lone_block.py:3")

    def test_dependency_does_not_parse(self, make_task, write) -> None:
        write("broken_helper.py", "x = 1\ny = = 2\n")
        with pytest.raises(TaskProblem, match="does not parse") as caught:
            make_task("import broken_helper\n")
        assert caught.value.where.endswith("broken_helper.py:2")

    def test_missing_dependency(self, make_task) -> None:
        with pytest.raises(TaskProblem) as caught:
            make_task("import surely_not_installed.things\n")
        assert caught.value.what == f"The file imports surely_not_installed, which {sys.executable} does not have."
        assert caught.value.where.endswith("lone_block.py:3")
        assert f"{sys.executable} -m pip install surely_not_installed" in caught.value.next_step
        assert "--python" in caught.value.next_step

    def test_missing_module_of_the_project_itself(self, write, spec) -> None:
        write("plant/__init__.py", "")
        path = write("plant/blocks.py", "from .roots import deep\n")
        with pytest.raises(TaskProblem, match=r"imports plant\.roots, which the project below") as caught:
            load.load_task(spec(path, module_name="plant.blocks"))
        assert "pip" not in caught.value.next_step

    def test_import_raises(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="Importing the file raises ZeroDivisionError") as caught:
            make_task("WIDTH = 1 / 0\n")
        assert caught.value.where.endswith("lone_block.py:3")

    def test_import_exits(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="SystemExit"):
            make_task("import sys\nsys.exit(3)\n")

    def test_no_such_class(self, make_task) -> None:
        source = LINEAR + "\nclass Other(nn.Module):\n    pass\n\nclass Plain:\n    pass\n"
        with pytest.raises(TaskProblem, match="has no class Blok") as caught:
            make_task(source, "Blok")
        assert caught.value.next_step == "Its modules are: Block, Other."

    def test_not_a_module(self, make_task) -> None:
        with pytest.raises(TaskProblem, match=r"Block is not a torch\.nn\.Module") as caught:
            make_task("class Block:\n    pass\n")
        assert caught.value.where.endswith(":3")

    def test_name_of_a_module_that_is_taken(self, write, spec) -> None:
        path = write("subprocess.py", HEADER + LINEAR)
        with pytest.raises(TaskProblem, match="Importing subprocess gives"):
            load.load_task(spec(path, init="64"))

    def test_constructor_raises(self, make_task) -> None:
        source = """
        def check(dim):
            raise ValueError(f"{dim} is odd")
        class Block(nn.Module):
            def __init__(self, dim):
                super().__init__()
                check(dim)
            def forward(self, x):
                return x
        """
        with pytest.raises(TaskProblem, match="constructor of Block raises ValueError: 7 is odd") as caught:
            make_task(source, init="7").reference()
        assert caught.value.where.endswith("lone_block.py:5")

    def test_forward_raises_inside_torch(self, make_task) -> None:
        task = make_task(LINEAR, init="64", inputs="torch.randn(8, 63)")
        with pytest.raises(TaskProblem, match="forward of Block raises RuntimeError") as caught:
            task.forward(task.reference(), *task.inputs())
        assert caught.value.where.endswith("lone_block.py:10")

    def test_wrong_number_of_arguments(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="TypeError"):
            make_task(LINEAR, init="64, 65, 66").reference()


def test_inputs_survive_transport(make_task) -> None:
    source = """
    from dataclasses import dataclass
    @dataclass
    class Batch:
        x: torch.Tensor
        scale: float
    class Block(nn.Module):
        def forward(self, batch, extras):
            return batch.x * batch.scale + extras["bias"][0]
    """
    inputs = "Batch(torch.randn(4, 3), 2.0), {'bias': (torch.randn(3), None)}"
    task = make_task(source, inputs=inputs)
    tensors, structure = values.flatten(task.inputs())
    args, kwargs = values.rebuild(json.loads(json.dumps(structure)), tensors)
    assert torch.equal(task.forward(task.reference(), args, kwargs), tensors[0] * 2.0 + tensors[1])
    assert Path(task.module.__file__).name == "lone_block.py"
