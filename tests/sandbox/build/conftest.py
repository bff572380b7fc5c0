"""Kernel folders on disk, and the real compilers in the best isolation this machine allows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.build import Built, build_kernels
from sandbox.build.toolchain import Nvcc, find_nvcc
from sandbox.errors import EnvironmentFault
from sandbox.isolation import Isolation, best_isolation

ADD_CPP = """\
#include <cstdint>
extern "C" int add(const float* x, const float* y, float* out, int64_t n, float alpha) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + alpha * y[i];
  return 0;
}
"""
SCALE_CU = """\
#include <cstdint>
template <int FACTOR> __global__ void scale_kernel(const float* __restrict__ x, float* y, int64_t n) {
  __shared__ float tile[128];
  int64_t i = blockIdx.x * 128 + threadIdx.x;
  tile[127 - threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = FACTOR * tile[threadIdx.x];
}
extern "C" int scale(const float* x, float* y, int64_t n, cudaStream_t stream) {
  scale_kernel<3><<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
  return (int)cudaGetLastError();
}
"""


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    """The isolation that a developer of this machine would get."""
    return best_isolation()


@pytest.fixture(scope="session")
def nvcc() -> Nvcc:
    """The CUDA compiler; tests that need it are skipped, and say so, where there is none."""
    try:
        return find_nvcc()
    except EnvironmentFault as fault:
        pytest.skip(f"needs nvcc: {fault.what}")


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Write kernel files and return their folder; earlier files stay."""

    def write(files: dict[str, str]) -> Path:
        kernels = tmp_path / "workspace/kernels"
        kernels.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (kernels / name).parent.mkdir(parents=True, exist_ok=True)
            (kernels / name).write_text(textwrap.dedent(text))
        return kernels

    return write


@pytest.fixture
def build(folder: Callable[[dict[str, str]], Path], tmp_path: Path, isolation: Isolation) -> Callable[..., Built]:
    """Build files for the CPU, or for an ``arch``."""

    def run(files: dict[str, str], arch: str = "cpu", **options: object) -> Built:
        return build_kernels(folder(files), arch=arch, cache=tmp_path / "cache", isolation=isolation, **options)

    return run
