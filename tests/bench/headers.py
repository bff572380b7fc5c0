"""What a large header costs a build: our build of one kernel beside nvcc's, with CUB whole, with one header of it, and without.

Both halves of a file are compiled side by side, and the host's object is kept for as long as only kernels' bodies change
(``sandbox.build.halves``). What is left is both front ends reading the header, which nothing shortens: nvcc has no precompiled
headers, and ``--split-compile`` is about optimising many kernels, as its own rows show.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from sandbox.build import build_kernels
from sandbox.build.target import Target, cuda_target
from sandbox.errors import EnvironmentFault
from sandbox.isolation import best_isolation
from sandbox.machine.devices import gpu_of
from tests.bench.row import Row

ROUNDS = 3
OWN = """
__device__ float total(float value) {
  __shared__ float sums[8];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float all = 0.0f;
  for (int warp = 0; warp < 8; warp++) all += sums[warp];
  return all;
}
"""
CUB = """
__device__ float total(float value) {
  using Reduce = cub::BlockReduce<float, 256>;
  __shared__ typename Reduce::TempStorage storage;
  return Reduce(storage).Sum(value);
}
"""
KERNEL = """#include <cstdint>
INCLUDE
TOTAL
__global__ void sum(const float* x, float* out, int64_t columns) {
  float value = EDIT.0f;
  for (int64_t i = threadIdx.x; i < columns; i += 256) value += x[blockIdx.x * columns + i];
  value = total(value);
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}
extern "C" int row_sum(const float* x, float* out, int64_t rows, int64_t columns, cudaStream_t stream) {
  sum<<<rows, 256, 0, stream>>>(x, out, columns);
  return (int)cudaGetLastError();
}
"""
HEADERS = {
    "no header": ("", OWN),
    "cub/block": ("cub/block/block_reduce.cuh", CUB),
    "cub/cub.cuh": ("cub/cub.cuh", CUB),
}


def rows(device: str) -> Iterator[Row]:
    """Build anew and after an edit of a body, for each header, with nvcc's way in the same rounds; needs nvcc and no GPU."""
    gpu = gpu_of(device)
    arch = f"sm_{gpu.sm}" if gpu else "sm_90"
    try:
        target = cuda_target(arch, (), ())
    except EnvironmentFault as fault:
        print(f"headers: left out: {fault}", file=sys.stderr)
        return
    for name, (header, total) in HEADERS.items():
        include = f"#include <{header}>" if header else ""
        source = KERNEL.replace("INCLUDE", include).replace("TOTAL", total)
        times = [_round(source, target, arch) for _ in range(ROUNDS)]
        first, edited, whole, split = (median(seconds) for seconds in zip(*times, strict=True))
        note = f"median of {ROUNDS}; usual: nvcc -shared"
        yield Row(f"first build, {name}", first, "s", None, whole, note)
        yield Row(f"build after an edit of a body, {name}", edited, "s", None, whole, note)
        yield Row(f"  nvcc --split-compile=0, {name}", split, "s", None, whole, "beside nvcc without it")


def _round(source: str, target: Target, arch: str) -> tuple[float, float, float, float]:
    """Return the seconds of a first build, of one after an edit, of nvcc, and of nvcc with ``--split-compile``."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as scratch:
        folder = Path(scratch) / "kernels"
        folder.mkdir()
        ours = [_build(folder, source.replace("EDIT", str(number)), Path(scratch) / "cache", arch) for number in (1, 2)]
        usual = [_nvcc(folder, target, flags) for flags in ([], ["--split-compile=0"])]
        return ours[0], ours[1], usual[0], usual[1]


def _build(folder: Path, source: str, cache: Path, arch: str) -> float:
    (folder / "row_sum.cu").write_text(source)
    began = time.perf_counter()
    built = build_kernels(folder, arch=arch, cache=cache, isolation=best_isolation())
    assert built.report.ok, built.report.diagnostics
    return time.perf_counter() - began


def _nvcc(folder: Path, target: Target, flags: list[str]) -> float:
    command = [*target.compiler, *target.flags, *flags, "-shared", str(folder / "row_sum.cu")]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "-o", str(folder.parent / "usual.so")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
    return time.perf_counter() - began
