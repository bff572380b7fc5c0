"""What the agent is told at the start."""

from __future__ import annotations

import json

import pytest

from agent.prompt import opening_message, system_message
from agent.quoting import quoted, shows_whole
from agent.skills import load_skills
from tests.agent.support import MODULE, make_spec


def test_the_system_message_fits_the_device(tmp_path):
    spec, skills = make_spec(tmp_path), load_skills()
    cpu = system_message(spec, skills, 150)["content"]
    cuda = system_message(spec.with_changes(device="cuda:0"), skills, 150)["content"]
    assert "kernels/NAME.cpp" in cpu
    assert "int64_t n, float eps)\n" in cpu
    assert "kernels/NAME.cu" in cuda
    assert "float eps, cudaStream_t stream)" in cuda
    assert "from shifted_kernels import NAME" in cpu
    assert "`shifted.py` cannot be imported in Bash. Try a kernel there with g++ and a main of its own" in cpu
    assert "Try a kernel there with nvcc" in cuda
    assert "You have 150 answers" in cpu


def test_it_names_no_place_of_this_machine(tmp_path):
    spec = make_spec(tmp_path)
    text = system_message(spec, load_skills(), 150)["content"] + opening_message(spec, MODULE)["content"]
    assert str(tmp_path) not in text
    assert str(spec.python) not in text


def test_the_main_skill_is_whole_and_the_others_are_only_named(tmp_path):
    skills = load_skills()
    text = system_message(make_spec(tmp_path), skills, 150)["content"]
    assert skills.main.body in text
    for skill in skills.all:
        assert skill.main or (skill.description in text and skill.body not in text)


def test_the_policy_is_said(tmp_path):
    spec, skills = make_spec(tmp_path), load_skills()
    assert "own-kernels" in system_message(spec, skills, 1)["content"]
    assert "library-ok" in system_message(spec.with_changes(policy="library-ok"), skills, 1)["content"]


def test_the_opening_tells_how_the_module_is_built_and_called(tmp_path):
    spec = make_spec(tmp_path)
    text = opening_message(spec, MODULE)["content"]
    assert "Shifted(256), forward(torch.randn(32, 256))" in text
    assert "y = torch.clamp(y, -2.0, 2.0)" in text
    factory = opening_message(spec.with_changes(factory="make_inputs"), MODULE)["content"]
    assert "inputs from make_inputs" in factory
    benchmark = spec.with_changes(kind="kernelbench", class_name="Model")
    text = opening_message(benchmark, MODULE.replace("Shifted", "ModelNew"))["content"]
    assert "ModelNew(*get_init_inputs())" in text
    assert "`model_new.py`" in text


def test_of_a_long_file_only_the_class_is_quoted(tmp_path):
    long = MODULE + "\n# padding" * 5000
    text = opening_message(make_spec(tmp_path), long)["content"]
    assert "class Shifted(nn.Module)" in text
    assert "padding" not in text
    assert "Read the file for the rest" in text
    assert not shows_whole(long)
    assert shows_whole(MODULE)


def test_of_a_long_file_what_the_class_uses_is_quoted_with_its_lines():
    helpers = "SLOPE = 0.5\n\n\ndef squash(x):\n    return x * SLOPE\n\n\ndef unused(x):\n    return x\n\n\n"
    source = "import torch\nfrom torch import nn\n\n" + helpers + "# padding\n" * 1000
    source += "@torch.no_grad\nclass Block(nn.Module):\n    def forward(self, x):\n        return squash(x)\n"
    text = quoted(source, "Block")
    for piece in (
        "import torch\n",
        "SLOPE = 0.5",
        "def squash(x):",
        "@torch.no_grad\nclass Block",
        "# lines 1 to 8 of ",
    ):
        assert piece in text
    assert "unused" not in text
    assert "padding" not in text


def test_what_was_captured_is_told(tmp_path):
    manifest = {
        "schema": "warpsmith.capture/1",
        **dict.fromkeys(("module", "class", "file", "main", "python", "refused", "next_step", "autocast"), ""),
        **dict.fromkeys(("training", "gradients", "tf32"), False),
        "modes": {},
        "structure": {},
        "dynamic": [],
        "notes": [],
        "grad_mode": "no_grad",
        "init_missing": "",
        "plain": {"mask": None},
        "attributes": {"": {"variance_epsilon": 1e-06}, "act": {"inplace": False}},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 256]}],
        "state": {"tensors": {"weight": {"dtype": "float32", "shape": [256]}}, "baked": {}, "ties": [], "copied": True},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    text = opening_message(make_spec(tmp_path).with_changes(capture=str(tmp_path)), MODULE)["content"]
    assert "captured inputs: x float32 [4, 256], mask=None\n" in text
    assert "captured parameters and buffers: weight float32 [256]\n" in text
    assert "captured attributes: variance_epsilon=1e-06, act.inplace=False" in text


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_said(tmp_path, training):
    text = opening_message(make_spec(tmp_path).with_changes(training=training), MODULE)["content"]
    assert f"mode: {'train' if training else 'eval'}" in text


def test_what_the_task_is_judged_by_is_said_where_it_is_not_usual(tmp_path):
    spec = make_spec(tmp_path)
    assert "latency" not in opening_message(spec, MODULE)["content"]
    assert "- judged by latency" in opening_message(spec.with_changes(judged_by="latency"), MODULE)["content"]


def test_the_function_that_makes_the_inputs_is_quoted_where_the_module_is_elsewhere(tmp_path):
    spec = make_spec(tmp_path)
    (spec.root / "data").mkdir()
    makes = "def make_inputs():\n    return torch.randint(0, 77, (4,))"
    (spec.root / "data" / "batch.py").write_text(f"import torch\n\n\n{makes}\n\n\ndef other():\n    return 88\n")
    text = opening_message(spec.with_changes(factory="data.batch:make_inputs"), MODULE)["content"]
    assert makes in text
    assert "return 88" not in text
    assert "inputs from data.batch:make_inputs" in text
    for name in ("data.batch:missing", "data.nowhere:make_inputs", "make_inputs"):
        assert "make_inputs of" not in opening_message(spec.with_changes(factory=name), MODULE)["content"]
    spec.path.write_text(f"{MODULE}\n\n{makes}\n")
    long = f"{spec.path.read_text()}\n{'# much more' * 1000}"
    assert (
        text.count(makes)
        == opening_message(spec.with_changes(factory="make_inputs"), long)["content"].count(makes)
        == 1
    )
