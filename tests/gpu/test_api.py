"""``from warpsmith import optimize`` on a GPU: a scripted model's kernel comes back in place of the module, and is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.agent.support import MODULE
from tests.agent.test_end_to_end import CANDIDATE
from tests.servers.openai_server import Call, OpenAIServer, Reply

pytestmark = pytest.mark.gpu

KERNEL = """#include <cstdint>

__global__ void shift(const float* x, const float* scale, float* out, int64_t n, int64_t width) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float y = fminf(fmaxf(x[i] * scale[i % width] + 1.0f, -2.0f), 2.0f);
    out[i] = y * y - x[i];
}

extern "C" int fused_shift(const float* x, const float* scale, float* out, int64_t rows, int64_t width,
                           cudaStream_t stream) {
    const int64_t n = rows * width;
    shift<<<(n + 255) / 256, 256, 0, stream>>>(x, scale, out, n, width);
    return (int)cudaGetLastError();
}
"""
SCRIPT = [
    Reply(
        text="One fused pass.",
        calls=[
            Call("Write", {"file_path": "kernels/shifted.cu", "content": KERNEL}),
            Call("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
            Call("Check", {"tier": "full"}),
        ],
    ),
    *[Reply(text="The fused kernel is correct.")] * 3,
]
PROGRAM = """
import json, sys, torch, warpsmith
from shifted import Shifted

module = Shifted(4096).eval().cuda()
x = torch.randn(4096, 4096, device="cuda")
fast = warpsmith.optimize(module, x, init="4096", **json.loads(sys.argv[1]))
with torch.inference_mode():
    torch.testing.assert_close(fast(x), module(x))
kernels = sys.modules[type(fast).__module__ + "_kernels"]
assert kernels.counts()["fused"] == 1, kernels.counts()
assert fast.scale is module.scale and fast.scale.is_cuda
verdict = warpsmith.check(module, sys.argv[2], x, init="4096")
print(verdict.reward, verdict.reason)
"""


@pytest.mark.timeout(600)
def test_a_module_on_the_gpu_comes_back_faster(tmp_path):
    (tmp_path / "shifted.py").write_text(MODULE)
    mine = tmp_path / "mine"
    (mine / "kernels").mkdir(parents=True)
    (mine / "shifted.py").write_text(CANDIDATE)
    (mine / "kernels" / "shifted.cu").write_text(KERNEL)
    with OpenAIServer(SCRIPT) as server:
        options = {"model": "openai/test", "api_base": server.base_url, "cache": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(options), str(mine)],
            cwd=tmp_path,
            env={**os.environ, "WARPSMITH_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("2 ", "3 ")), done.stdout
