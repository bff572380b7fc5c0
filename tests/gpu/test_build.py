"""Built libraries on a GPU: what was put together from both halves of nvcc runs, and a new image in a kept host object too.

The tests print how long nvcc takes as a whole and taken apart, and what a bound call costs.
"""

from __future__ import annotations

import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from warpsmith_harness import kernels

from sandbox.build import build_kernels, target
from sandbox.isolation import best_isolation

pytestmark = pytest.mark.gpu

SOURCE = """\
#include <cstdint>
INCLUDES
namespace {
constexpr int BLOCK = 128;
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ float kept = 0.5f;
template <int FACTOR> __global__ void scale(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i] * table[i & 3] + kept;
}
}
extern "C" int scaled(const float* x, float* y, int64_t n, cudaStream_t s) {
  scale<3><<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, s>>>(x, y, n);
  return (int)cudaGetLastError();
}
"""
EDIT = ("+ kept", "- kept")
CUB = "#include <cub/cub.cuh>\n#include <cuda_bf16.h>\n#include <mma.h>"
Build = Callable[[str], ModuleType]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Build a source and bind its launchers; prints the seconds."""
    major, minor = torch.cuda.get_device_capability()
    (tmp_path / "kernels").mkdir()

    def run(source: str) -> ModuleType:
        (tmp_path / "kernels/f.cu").write_text(source)
        began = time.perf_counter()
        built = build_kernels(
            tmp_path / "kernels", arch=f"sm_{major}{minor}", cache=tmp_path / "cache", isolation=best_isolation()
        )
        print(f"  built in {time.perf_counter() - began:.2f} s")
        assert built.manifest is not None, built.report.diagnostics
        return kernels.bind(built.manifest.to_json(), "kernels")

    return run


def check(module: ModuleType, kept: float) -> None:
    """Compare a launcher's result with what torch makes of the same."""
    x = torch.randn(1000, device="cuda")
    y = torch.empty_like(x)
    module.scaled(x, y, x.numel())
    table = torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda").repeat(250)
    torch.testing.assert_close(y, 3 * x * table + kept)


@pytest.mark.parametrize("includes", ["", CUB], ids=["plain", "CUB"])
def test_a_new_image_in_a_kept_host_object_runs(build: Build, tmp_path: Path, includes: str) -> None:
    source = SOURCE.replace("INCLUDES", includes)
    first = build(source)
    edited = build(source.replace(*EDIT))
    check(first, 0.5)
    check(edited, -0.5)
    assert len(list((tmp_path / "cache/hosts").iterdir())) == 1


@pytest.mark.parametrize("includes", ["", CUB], ids=["plain", "CUB"])
def test_nvcc_as_a_whole_gives_the_same(build: Build, monkeypatch: pytest.MonkeyPatch, includes: str) -> None:
    monkeypatch.setattr(target, "take_apart", lambda *_: None)
    check(build(SOURCE.replace("INCLUDES", includes)), 0.5)


def test_what_a_bound_call_costs(build: Build) -> None:
    module = build(SOURCE.replace("INCLUDES", "").replace("scale<3><<<", "if (n) scale<3><<<"))
    x, y = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda")
    seconds = min(timeit.repeat(lambda: module.scaled(x, y, 0), number=20_000, repeat=7)) / 20_000
    print(f"  {seconds * 1e6:.2f} us a call that launches nothing, Python {sys.version.split()[0]}")
    check(module, 0.5)


def test_the_doctor_compares_this_machine(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.cli", "doctor", "--cache", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert "✓ CUDA" in done.stdout, done.stderr
