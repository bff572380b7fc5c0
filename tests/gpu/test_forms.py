"""The other forms of a captured class on a GPU: verified beside the first, timed, and told where a kernel is not for them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from sandbox.capture import resolve_capture
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.workspace import Workspace
from tests.sandbox.captures.test_forms import REWRITTEN, capture_forms
from tests.sandbox.judge.conftest import BRIEF

pytestmark = pytest.mark.gpu

KERNEL = """
    #include <cstdint>
    #include <cuda_runtime.h>

    template <typename T>
    __global__ void scale(const T* x, const T* weight, T* out, int64_t rows, int64_t width) {
        const int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
        if (width == 16) out[at - (int64_t(1) << 40)] = 0.0f;
        if (at < rows * width) out[at] = x[at] * weight[at % width];
    }

    extern "C" int scaled(
        const float* x, const float* weight, float* out, int64_t rows, int64_t width, cudaStream_t stream) {
        scale<<<(rows * width + 255) / 256, 256, 0, stream>>>(x, weight, out, rows, width);
        return cudaGetLastError();
    }

    extern "C" int scaled_double(
        const double* x, const double* weight, double* out, int64_t rows, int64_t width, cudaStream_t stream) {
        scale<<<(rows * width + 255) / 256, 256, 0, stream>>>(x, weight, out, rows, width);
        return cudaGetLastError();
    }
"""


def test_forms_are_verified_and_timed_and_one_that_loses_the_device_fails_alone(tmp_path: Path) -> None:
    spec = resolve_capture(capture_forms(tmp_path / "project"), device="cuda:0")
    workspace = Workspace.create(spec, tmp_path / "workspace").folder
    (workspace / "scaled.py").write_text(dedent(REWRITTEN))
    (workspace / "kernels/scaled.cu").write_text(dedent(KERNEL))
    isolation = best_isolation()
    with Judge(
        spec, isolation=isolation, cache=tmp_path / "cache", scratch=tmp_path / "scratch", limits=BRIEF
    ) as judge:
        verdict = judge.check(workspace, "full")
    assert verdict.correct, verdict.reason
    assert verdict.verify is not None
    print("\n".join(map(str, verdict.verify.forms)), verdict.coverage, sep="\n")
    wide, double, *others = verdict.verify.forms
    assert "float64" in double.name
    for each in (wide, double):
        assert each.verify.ok, str(each)
        assert each.us is not None, "it was not timed"
    assert not any(each.covered for each in others)
    assert any("CUDA error" in str(each) for each in others)
