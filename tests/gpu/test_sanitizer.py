"""compute-sanitizer on a GPU: each kind of fault is found by the tool meant to find it, at its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.looking.sanitizer import SanitizerReport, find_compute_sanitizer, sanitize
from tests.scale_task import Write, reference, write_task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_compute_sanitizer() is None, reason="there is no compute-sanitizer"),
]

KERNEL = """
#include <cstdint>
#include <cuda_runtime.h>

__global__ void scale_add_kernel(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
  __shared__ float turned[256];
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  int last = blockDim.x - 1;
  float value = i < n ? x[i] * w[i % d] + y[i] : 0.f;
  turned[threadIdx.x] = value;
  BARRIER
  float other = turned[last - threadIdx.x];
  __syncthreads();
  turned[last - threadIdx.x] = other;
  __syncthreads();
  value = turned[threadIdx.x];
  BODY
  if (WRITTEN) out[i] = fmaxf(value, 0.f);
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d,
                         cudaStream_t stream) {
  int64_t count = n * d;
  scale_add_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x, w, y, out, count, d);
  return cudaGetLastError();
}
"""


def kernel(barrier: str = "__syncthreads();", body: str = "", written: str = "i < n") -> str:
    return KERNEL.replace("BARRIER", barrier).replace("BODY", body).replace("WRITTEN", written)


def line_of(source: str, part: str) -> int:
    return source[: source.index(part)].count("\n") + 1


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("sanitizer")
    spec = write_task(folder, reference(32, 1000), device="cuda:0")
    with Judge(spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch") as shared:
        yield shared


def sanitized(judge: Judge, folder: Path) -> SanitizerReport:
    report = judge.study(folder, sanitize)
    for tool in report.tools:
        print(f"{tool.name}: {tool.seconds:.1f} s {tool.problem}")
    for finding in report.findings:
        print(finding)
    return report


def test_nothing_is_found_in_a_right_kernel(judge: Judge, candidate: Write) -> None:
    report = sanitized(judge, candidate(kernel()))
    assert [tool.problem for tool in report.tools] == [""] * 4
    assert report.findings == ()
    assert report.ok


PAST_THE_END = "if (i == n - 1) value += x[n] * 0.f;"
NEVER_WRITTEN = "if (i < n) value += out[i] * 0.f;"
SOME_OF_A_BLOCK = "if (threadIdx.x < 100) __syncthreads();"


@pytest.mark.parametrize(
    ("source", "tool", "part", "kind"),
    [
        (kernel(body=PAST_THE_END), "memcheck", PAST_THE_END, "Invalid __global__ read"),
        (kernel(barrier="/* no barrier */"), "racecheck", "turned[threadIdx.x] = value;", "race in shared memory"),
        (kernel(body=NEVER_WRITTEN), "initcheck", NEVER_WRITTEN, "Uninitialized __global__ memory read"),
        (kernel(written="i < n && i % d != 999"), "initcheck", "", "part of an output was never written"),
        (kernel(body=SOME_OF_A_BLOCK), "synccheck", SOME_OF_A_BLOCK, "Barrier error"),
    ],
    ids=["out of bounds inside a slab", "race", "uninitialised read", "unwritten output", "bad barrier"],
)
def test_a_fault_is_found_by_the_tool_meant_to_find_it(
    judge: Judge, candidate: Write, source: str, tool: str, part: str, kind: str
) -> None:
    report = sanitized(judge, candidate(source))
    assert report.ok is False
    found = [finding for finding in report.findings if finding.tool == tool]
    assert any(kind in finding.kind for finding in found), report.findings
    if part:
        assert any(f"kernels/scale_add.cu:{line_of(source, part)}" in finding.where for finding in found)
