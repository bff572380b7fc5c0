"""Every level on a GPU: a context, a kernel and its trace under the filter of system calls, and still no way out.

python -m pytest -q -s tests/gpu/test_isolation.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.isolation import LEVELS, Cell, interpreter_paths, probe
from tests.levels import isolation_named

pytestmark = pytest.mark.gpu

COMPUTE = """
import socket, torch
from torch.profiler import ProfilerActivity, profile
x = torch.ones(1024, 1024, device="cuda")
with profile(activities=[ProfilerActivity.CUDA]) as seen:
    total = (x @ x).sum().item()
kernels = sum("gemm" in event.key.lower() or "cutlass" in event.key.lower() for event in seen.key_averages())
pinned = torch.ones(1 << 20, pin_memory=True).to("cuda", non_blocking=True).sum().item()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): y = x + 1
graph.replay(); torch.cuda.synchronize()
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW); reached = True
except OSError: reached = False
print(total == 1024.0 ** 3, kernels > 0, pinned == 1 << 20, y[0, 0].item() == 2.0, reached)
"""


@pytest.mark.parametrize("name", LEVELS)
def test_cuda_and_its_trace_work_in_a_cell(name: str, tmp_path: Path) -> None:
    if reason := probe(name):
        pytest.skip(f"{name}: {reason}")
    python = Path(sys.executable)
    isolation = isolation_named(name)
    cell = Cell(interpreter_paths(python), (tmp_path,), tmp_path, gpu=True)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = isolation.popen([str(python), "-c", COMPUTE], cell, **pipes)
    try:
        out, errors = process.communicate(timeout=120)
    finally:
        isolation.kill(process)
    assert out.decode().split() == ["True", "True", "True", "True", "False"], errors.decode()[-2000:]
