from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import GIBIBYTE, JudgeLimits, TierLimits
from sandbox.task import TaskSpec
from sandbox.verdict import GuardReport

LIMITS = JudgeLimits(
    compile_seconds=0.0,
    call_seconds=6.0,
    memory_bytes=GIBIBYTE,
    quick=TierLimits(cases=3, placements=2, profile_seconds=0.1, pairs=4, least_pairs=3),
    full=TierLimits(cases=4, placements=5, profile_seconds=0.2, pairs=4, least_pairs=3),
)

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        return torch.relu(x * self.weight + y)

def get_inputs():
    return [torch.randn(32, 1024), torch.randn(32, 1024)]

def get_init_inputs():
    return [1024]
"""

MODEL_NEW = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        out = torch.empty_like(x)
        scale_add(x, self.weight, y, out, x.shape[0], x.shape[1])
        return out
"""

KERNEL = """
#include <cstdint>
INCLUDES
extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  BEFORE
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j) {
      float value = x[i * d + j] * w[j] + y[i * d + j];
      out[i * d + j] = value > 0 ? value : 0;
    }
  AFTER
  return 0;
}
"""


def kernel(before: str = "", after: str = "", includes: str = "") -> str:
    """The right kernel, with something before and after its loop."""
    named = "\n".join(f"#include <{name}>" for name in includes.split())
    return KERNEL.replace("INCLUDES", named).replace("BEFORE", before).replace("AFTER", after)


def write_task(folder: Path, source: str = REFERENCE, **changes: object) -> TaskSpec:
    """A KernelBench file and its spec."""
    project = folder / "project"
    project.mkdir()
    path = project / "scale.py"
    path.write_text(source)
    spec = TaskSpec("kernelbench", path, "Model", "scale", project, Path(sys.executable))
    return spec.with_changes(**changes)


Write = Callable[..., Path]


@pytest.fixture
def candidate(tmp_path: Path) -> Write:
    """Write a workspace of the shared task and return its folder."""

    def write(kernel_source: str = kernel(), python: str = MODEL_NEW) -> Path:
        (tmp_path / "candidate" / "kernels").mkdir(parents=True, exist_ok=True)
        (tmp_path / "candidate" / "model_new.py").write_text(python)
        (tmp_path / "candidate" / "kernels" / "scale_add.cpp").write_text(kernel_source)
        return tmp_path / "candidate"

    return write


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the static guard look away, so that what it would have stopped is run."""
    monkeypatch.setattr("sandbox.trial.check_source", lambda *_: GuardReport(ok=True))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Judge]:
    """One judge for every test of the shared task: what a candidate does must never reach the next one."""
    folder = tmp_path_factory.mktemp("task")
    spec = write_task(folder)
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=folder / "scratch", limits=LIMITS) as shared:
        yield shared
