"""Every tool of ``warpsmith mcp`` on a GPU, Nsight Compute's digest among them."""

from __future__ import annotations

import pytest

from tests.agent.mcp.every_tool import use_every_tool
from tests.agent.mcp.serving import make_project, server_of
from tests.agent.test_end_to_end import CANDIDATE

pytestmark = pytest.mark.gpu

KERNEL = """#include <cstdint>
#ifndef THREADS
#define THREADS 256
#endif

__global__ void shift(const float* x, const float* scale, float* out, int64_t n, int64_t width) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float y = x[i] * scale[i % width] + 1.0f;
#ifndef ABLATE_CLAMP
    y = fminf(fmaxf(y, -2.0f), 2.0f);
#endif
    out[i] = y * y - x[i];
}

extern "C" int fused_shift(const float* x, const float* scale, float* out, int64_t rows, int64_t width,
                           cudaStream_t stream) {
    const int64_t n = rows * width;
    shift<<<(n + THREADS - 1) / THREADS, THREADS, 0, stream>>>(x, scale, out, n, width);
    return (int)cudaGetLastError();
}
"""


@pytest.mark.timeout(600)
async def test_every_tool_is_used_once(tmp_path):
    project = make_project(tmp_path)
    files = {"shifted.py": CANDIDATE, "kernels/shifted.cu": KERNEL}
    told = await use_every_tool(
        server_of(project, "cuda"), project, device="cuda", size=(4096, 4096), files=files, macro="THREADS"
    )
    assert told["sweep"].startswith("Sweep")
    assert told["ablate"].startswith("Ablation")
    assert "LIKELIEST LIMITER" in told["ncu"]
    assert "eager" in told["profile"]
