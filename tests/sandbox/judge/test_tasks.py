"""Tasks and interpreters that cannot be used, and projects that must be usable however they name their packages."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from sandbox.errors import EnvironmentFault, TaskError
from sandbox.isolation import best_isolation
from sandbox.isolation.limits import ResourceLimits
from sandbox.judge import Judge
from sandbox.machine.devices import list_gpus
from sandbox.task import TaskSpec
from tests.conftest import skip_if_disturbed
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import REFERENCE, Write, kernel, write_task


def make_judge(spec: TaskSpec, tmp_path: Path, cache: Path) -> Judge:
    return Judge(spec, isolation=best_isolation(), cache=cache, scratch=tmp_path / "scratch", limits=LIMITS)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (REFERENCE.replace("return torch.relu(", "raise ValueError('no'); return torch.relu("), "ValueError: no"),
        (
            REFERENCE.replace("return torch.relu(", "import os; os._exit(7); return torch.relu("),
            "process with status 7",
        ),
        (REFERENCE.replace("* self.weight", "* torch.rand(())"), "not deterministic"),
        (REFERENCE.replace("def get_init_inputs", "def unused"), "needs dim"),
        (REFERENCE.replace("import torch\n", "import torch\nimport surely_missing\n"), "surely_missing"),
    ],
    ids=["raises", "ends its process", "random", "needs arguments", "missing dependency"],
)
def test_a_task_that_cannot_be_used(tmp_path: Path, cache: Path, source: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        make_judge(write_task(tmp_path, source), tmp_path, cache).open()
    assert not list((tmp_path / "scratch").iterdir())


def test_an_interpreter_without_torch_is_the_environments_fault(tmp_path: Path, cache: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    spec = write_task(tmp_path, python=tmp_path / "bare" / "bin" / "python")
    with pytest.raises(EnvironmentFault, match="cannot import torch"):
        make_judge(spec, tmp_path, cache).open()


def test_an_interpreter_with_an_old_torch_is_refused(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "old" / "torch").mkdir(parents=True)
    (tmp_path / "old" / "torch" / "__init__.py").write_text("__version__ = '2.3.1'\n")
    spec = write_task(tmp_path, env={"PYTHONPATH": str(tmp_path / "old")})
    with pytest.raises(EnvironmentFault, match=r"2\.4 or newer"):
        make_judge(spec, tmp_path, cache).open()


@pytest.mark.skipif(bool(list_gpus()), reason="there is a GPU, and torch may well use it")
def test_a_torch_that_cannot_use_the_device_is_the_environments_fault(tmp_path: Path, cache: Path) -> None:
    spec = write_task(tmp_path, device="cuda:0")
    with pytest.raises(EnvironmentFault, match=r"built without CUDA|finds no GPU"):
        make_judge(spec, tmp_path, cache).open()


def test_no_interpreter_at_all(tmp_path: Path, cache: Path) -> None:
    spec = write_task(tmp_path, python=tmp_path / "nowhere")
    with pytest.raises(EnvironmentFault):
        make_judge(spec, tmp_path, cache).open()


def test_a_project_whose_packages_are_called_like_ours(tmp_path: Path, cache: Path) -> None:
    project = tmp_path / "project"
    for name in ("app", "agent", "sandbox", "skills", "trainer", "warpsmith"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"NAME = {name!r}\n")
    (project / "sandbox" / "blocks.py").write_text(
        "import agent, app, skills, trainer\nfrom . import NAME\nassert agent.NAME == 'agent' and NAME == 'sandbox'\n"
        + REFERENCE.partition("def get_inputs")[0].replace("class Model", "class Block")
    )
    spec = TaskSpec(
        "module",
        project / "sandbox" / "blocks.py",
        "Block",
        "sandbox.blocks",
        project,
        Path(sys.executable),
        init="256",
        inputs="torch.randn(8, 256), torch.randn(8, 256)",
    )
    workspace = tmp_path / "workspace"
    (workspace / "kernels").mkdir(parents=True)
    (workspace / "kernels" / "scale_add.cpp").write_text(kernel())
    source = spec.path.read_text().replace(
        "from torch import nn", "from torch import nn\nfrom .blocks_kernels import scale_add"
    )
    body = "out = torch.empty_like(x)\n        scale_add(x, self.weight, y, out, x.shape[0], x.shape[1])\n        return out"
    (workspace / "blocks.py").write_text(source.replace("return torch.relu(x * self.weight + y)", body))
    with make_judge(spec, tmp_path, cache) as judge:
        verdict = judge.check(workspace)
    assert verdict.correct, verdict.reason
    assert verdict.task.id == "sandbox.blocks:Block"


def test_a_module_that_starts_threads_gets_fresh_workers(tmp_path: Path, cache: Path) -> None:
    threads = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    spec = write_task(tmp_path, threads + REFERENCE)
    (tmp_path / "model_new.py").write_text("from scale import Model as ModelNew\n")
    with make_judge(spec, tmp_path, cache) as judge:
        assert judge.environment["workers"].startswith("fresh")
        verdict = judge.check(tmp_path / "model_new.py")
    assert verdict.reward == -1
    assert verdict.environment["workers"].startswith("fresh")


@pytest.mark.alone
def test_the_original_is_profiled(tmp_path: Path, cache: Path) -> None:
    with make_judge(write_task(tmp_path), tmp_path, cache) as judge:
        profile = judge.original()
    assert profile.operators
    assert profile.depends_on == ("x", "y", "weight")
    assert profile.environment["torch"]
    skip_if_disturbed("".join(note for note in profile.notes if "not to be trusted" in note))
    assert profile.baselines["eager"].device_us > 0
    assert profile.copy_us > 0


def test_closing_leaves_nothing_behind(tmp_path: Path, cache: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    judge = make_judge(write_task(tmp_path), tmp_path, cache)
    judge.open()
    ours = [process for process in psutil.Process().children(recursive=True) if process not in before]
    assert ours
    judge.close()
    assert not [process for process in ours if process.is_running()]
    assert not list((tmp_path / "scratch").iterdir())


def test_without_namespaces_a_candidate_is_still_contained(
    unguarded: None, candidate: Write, tmp_path: Path, cache: Path
) -> None:
    name = "ws" + uuid.uuid4().hex[:10]
    daemon = f"""
      if (fork() == 0) {{
        setsid();
        if (fork() == 0) {{ prctl(PR_SET_NAME, "{name}"); for (;;) sleep(1000); }}
        _exit(0);
      }}
    """
    includes = "sys/prctl.h unistd.h"
    limits = ResourceLimits()
    with Judge(
        write_task(tmp_path), isolation=limits, cache=cache, scratch=tmp_path / "scratch", limits=LIMITS
    ) as judge:
        assert judge.check(candidate(kernel(before=daemon, includes=includes))).environment["isolation"] == "limits"
        crash = judge.check(candidate(kernel(before=daemon + "*(volatile int*)nullptr = 1;", includes=includes)))
        assert "SIGSEGV" in crash.reason
        assert not [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]
        assert judge.check(candidate()).correct
