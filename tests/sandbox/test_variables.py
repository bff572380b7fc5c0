"""What the judge's processes find in their environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.build.toolchain import find_ninja
from sandbox.task import TaskSpec
from sandbox.variables import Variables


@pytest.fixture
def variables(tmp_path: Path) -> Variables:
    spec = TaskSpec("kernelbench", tmp_path / "model.py", "Model", "model", tmp_path, Path(sys.executable))
    return Variables(spec, tmp_path / "compiled", tmp_path / "temporary")


@pytest.mark.parametrize(("sm", "present"), [("sm_90", "9.0"), ("sm_86", "8.6"), ("sm_120", "12.0")])
def test_an_extension_is_compiled_for_the_present_gpu_alone(
    variables: Variables, monkeypatch: pytest.MonkeyPatch, sm: str, present: str
) -> None:
    """A list of five architectures, as containers set it, takes five times as long."""
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "7.5 8.0 8.6 9.0 10.0+PTX")
    told = {**variables.worker(), **variables.extension(Path("/kept"), sm)}
    assert told["TORCH_CUDA_ARCH_LIST"] == present
    assert told["TORCH_EXTENSIONS_DIR"] == "/kept"
    assert str(find_ninja().parent) in told["PATH"].split(":")


def test_a_worker_gets_what_times_depend_on_and_no_key(variables: Variables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    for told in (variables.worker(), variables.zygote()):
        assert told["OMP_NUM_THREADS"] == "3"
        assert "SOME_API_KEY" not in told
    assert variables.bench()["SOME_API_KEY"] == "secret"


def test_a_profiler_around_the_judge_does_not_get_into_its_processes(
    variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once cannot have the tracer: the second sees no kernel, and whoever looks for kernels finds none."""
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/profiler/libinjection.so")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    for told in (variables.worker(), variables.zygote(), variables.bench()):
        assert "CUDA_INJECTION64_PATH" not in told
        assert told["CUDA_VISIBLE_DEVICES"] == "1"
