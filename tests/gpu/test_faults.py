"""Faults of CUDA kernels, each found by the case of a full verdict that is meant to find it.

What no answer shows (a read past the end, a barrier left out) is for the sanitizers: ``test_sanitizer.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.task import DynamicSize
from tests.scale_task import TRAINED, Write, reference, write_task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

ROWS, COLUMNS = 32, 1000  # 125 whole blocks of 256
SIZES = DynamicSize(("x.0", "y.0"), 1, 99)

KERNEL = """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void scale_add_kernel(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n * d) return;
  float value = x[i] * w[i % d] + y[i];
  WRITE out[i] = fmaxf(value, 0.f);
}

__global__ void backward_kernel(const float* x, const float* w, const float* out, const float* g, float* gx, float* gw,
                                float* gy, int64_t n, int64_t d) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n * d) return;
  float value = out[i] > 0 ? g[i] : 0.f;
  gy[i] = value;
  gx[i] = GX;
  GW;
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d,
                         cudaStream_t stream) {
  int64_t count = n * d;
  scale_add_kernel<<<BLOCKS, 256, 0, stream>>>(x, w, y, out, n, d);
  return cudaGetLastError();
}

extern "C" int scale_add_backward(const float* x, const float* w, const float* out, const float* g, float* gx, float* gw,
                                  float* gy, int64_t n, int64_t d, cudaStream_t stream) {
  int64_t count = n * d;
  cudaMemsetAsync(gw, 0, d * sizeof(float), stream);
  backward_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x, w, out, g, gx, gw, gy, n, d);
  return cudaGetLastError();
}
"""


def kernel(
    write: str = "",
    gx: str = "value * w[i % d]",
    gw: str = "atomicAdd(gw + i % d, value * x[i])",
    blocks: str = "(count + 255) / 256",
) -> str:
    """The right kernels, with places for a fault."""
    filled = KERNEL.replace("WRITE", write).replace("GX", gx).replace("GW", gw)
    return filled.replace("BLOCKS", blocks)


FAULTS = {
    "wrong gradient": (kernel(gx="g[i] * w[i % d]"), "gradients 1", "The gradient of x"),
    "wrong tail": (kernel(blocks="count > 256 ? count / 256 : 1"), "size ", "never written"),
    "wrong odd size": (kernel(write="if (n % 2 == 0 || n < 3 || n == 99 || i % d)"), "size ", "never written"),
    "race": (kernel(gw="gw[i % d] = gw[i % d] + value * x[i]"), "gradients 1", "The gradient of weight"),
    "uninitialised output": (kernel(write="if (i % d != d - 1)"), "fresh inputs 1", "never written"),
}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("faults")
    spec = write_task(folder, reference(ROWS, COLUMNS), device="cuda:0", dynamic=(SIZES,), gradients=True)
    with Judge(spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch") as shared:
        yield shared


def test_the_right_kernels_pass(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(), TRAINED), "full")
    assert verdict.correct, verdict.reason


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_and_its_case(judge: Judge, candidate: Write, fault: str) -> None:
    source, case, words = FAULTS[fault]
    verdict = judge.check(candidate(source, TRAINED), "full")
    print(verdict.reason)
    assert verdict.reward == -1
    assert verdict.verify
    assert [each.ok for each in verdict.verify.cases] == [True] * (len(verdict.verify.cases) - 1) + [False]
    last = verdict.verify.cases[-1]
    assert last.name.startswith(case)
    assert words in last.reason
