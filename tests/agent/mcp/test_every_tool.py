"""Every tool of ``warpsmith mcp`` on the CPU; ``tests/gpu`` has the same on a GPU."""

from __future__ import annotations

import pytest

from tests.agent.mcp.every_tool import use_every_tool
from tests.agent.mcp.serving import server_of
from tests.agent.test_end_to_end import CANDIDATE, FILE

KERNEL = """#include <cstdint>
#ifndef STEP
#define STEP 64
#endif

extern "C" int fused_shift(const float* x, const float* scale, float* out, int64_t rows, int64_t width) {
    for (int64_t start = 0; start < rows * width; start += STEP) {
        for (int64_t i = start; i < start + STEP && i < rows * width; ++i) {
            float y = x[i] * scale[i % width] + 1.0f;
#ifndef ABLATE_CLAMP
            y = y < -2.0f ? -2.0f : (y > 2.0f ? 2.0f : y);
#endif
            out[i] = y * y - x[i];
        }
    }
    return 0;
}
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_every_tool_is_used_once(project):
    files = {"shifted.py": CANDIDATE, FILE: KERNEL}
    told = await use_every_tool(server_of(project), project, device="cpu", size=(256, 1024), files=files, macro="STEP")
    assert told["sweep"].startswith("Sweep")
    assert told["ablate"].startswith("Ablation")
    assert "sanitizer: nothing found" in told["sanitize"]
    assert "eager" in told["profile"]
