"""From what a developer types to a task, without importing their code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.errors import EnvironmentFault, TaskError, UsageError
from sandbox.target import find_classes, find_interpreter, find_modules, locate, resolve_target

BLOCKS = '''
raise RuntimeError("importing this file is forbidden")
import torch.nn as nn
from torch.nn import functional as F

class Block(nn.Module):
    """A block.

    More."""
    def __init__(self, dim: int, eps: float = 1e-6, *, bias=True):
        super().__init__()

    def forward(self, x, mask=None):
        return x

class Derived(Block):
    def forward(self, *xs, **more):
        return xs

class Helper:
    pass
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "pkg" / "nn"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "blocks.py").write_text(BLOCKS)
    return tmp_path


def test_classes_are_found_without_importing(project: Path) -> None:
    block, derived = find_classes(project / "pkg/nn/blocks.py")
    assert (block.name, block.line, block.docstring) == ("Block", 6, "A block.")
    assert block.init_parameters == ("dim: int", "eps: float = 1e-06", "bias = True")
    assert block.forward_parameters == ("x", "mask = None")
    assert block.needs_arguments
    assert derived.forward_parameters == ("*xs", "**more")
    assert not derived.needs_arguments


def test_a_package_file_gets_its_dotted_name_and_root(project: Path) -> None:
    assert locate(project / "pkg/nn/blocks.py") == (project, "pkg.nn.blocks")
    assert locate(project / "pkg/nn/__init__.py") == (project, "pkg.nn")


def test_a_named_class_becomes_a_task(project: Path) -> None:
    spec = resolve_target(f"{project}/pkg/nn/blocks.py:Block", init="4", inputs="torch.ones(2)")
    assert (spec.kind, spec.class_name, spec.module_name, spec.root) == ("module", "Block", "pkg.nn.blocks", project)
    assert spec.id == "pkg.nn.blocks:Block"
    assert spec.kernels_import == "from .blocks_kernels import"
    assert (spec.candidate_file, spec.candidate_class) == ("blocks.py", "Block")
    assert type(spec).from_json(spec.to_json()) == spec


def test_a_dotted_module_is_found_below_the_current_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert resolve_target("pkg.nn.blocks:Derived").path == project / "pkg/nn/blocks.py"


def test_a_dotted_module_is_found_where_the_interpreter_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_target("json.decoder:JSONDecoder").path.name == "decoder.py"


def test_a_kernelbench_file_needs_no_class(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    file.write_text(
        "class Model:\n def forward(self, x): return x\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
    )
    spec = resolve_target(str(file))
    assert (spec.kind, spec.class_name, spec.candidate_file, spec.candidate_class) == (
        "kernelbench",
        "Model",
        "model_new.py",
        "ModelNew",
    )
    assert spec.kernels_import == "from kernels import"


def test_a_lone_file_imports_its_kernels_without_a_dot(tmp_path: Path) -> None:
    (tmp_path / "lone.py").write_text("class A:\n def forward(self): pass\n")
    assert resolve_target(f"{tmp_path}/lone.py").kernels_import == "from lone_kernels import"


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ("pkg/nn/blocks.py", UsageError, "Block, Derived"),
        ("pkg/nn/blocks.py:Blok", UsageError, "Block, Derived, Helper"),
        ("pkg/nn/missing.py", UsageError, "no such file"),
        ("pkg/nn", UsageError, "folder"),
        ("no.such.module:Class", UsageError, "interpreter"),
        ("pkg/broken.py:A", TaskError, "broken.py:2"),
        ("pkg/__init__.py", UsageError, "file of its own"),
        ("pkg/empty.py", UsageError, "no class"),
    ],
)
def test_a_bad_target_says_what_where_and_what_next(
    project: Path, monkeypatch: pytest.MonkeyPatch, target: str, error: type[Exception], words: str
) -> None:
    monkeypatch.chdir(project)
    (project / "pkg/empty.py").write_text("")
    (project / "pkg/broken.py").write_text("class A:\n  def forward(self:\n")
    with pytest.raises(error, match=words) as caught:
        resolve_target(target)
    assert caught.value.where  # type: ignore[attr-defined]
    assert caught.value.next_step  # type: ignore[attr-defined]


def test_the_picker_skips_environments_and_broken_files(project: Path) -> None:
    (project / "broken.py").write_text("def (")
    environment = project / "myenv"
    environment.mkdir()
    (environment / "pyvenv.cfg").write_text("")
    (environment / "lib.py").write_text(BLOCKS)
    assert [found.name for found in find_modules(project)] == ["Block", "Derived"]


def test_the_interpreter_is_the_one_named_then_the_active_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tmp_path / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(sys.executable)
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    assert find_interpreter() == environment / "bin/python"
    assert find_interpreter(sys.executable) == Path(sys.executable)
    with pytest.raises(EnvironmentFault, match="--python"):
        find_interpreter(str(tmp_path / "nowhere"))
