"""The Python API, in a program of its own: a module in, the landed-form module out, by a scripted model and the real judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.agent.support import MODULE, UNCOMPILED
from tests.agent.test_end_to_end import CANDIDATE, KERNEL
from tests.servers.openai_server import Call, OpenAIServer, Reply

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("judge")]

WIDTH, ROWS = 512, 128
SCRIPT = [
    Reply(
        text="One fused pass.",
        calls=[
            Call("Write", {"file_path": "kernels/shifted.cpp", "content": KERNEL}),
            Call("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
        ],
    ),
    Reply(text="Judged.", calls=[Call("Check", {"tier": "full"})]),
    Reply(text="The fused kernel is correct."),
]
PROGRAM = f"""
import json, sys, torch
from pathlib import Path
import warpsmith
from sandbox.errors import LandingRefused
from shifted import Shifted

options = json.loads(sys.argv[1])
module = Shifted({WIDTH}).eval()
seen = []
module.register_forward_hook(lambda *_: seen.append("hook"))
x = torch.randn({ROWS}, {WIDTH})
try:
    fast = warpsmith.optimize(module, x, init="{WIDTH}", **options)
except LandingRefused as refused:  # times were disturbed, or there was nothing to gain: the developer's word counts
    fast = warpsmith.load("last", module, init="{WIDTH}", **options)
seen.clear()
with torch.no_grad():
    same = torch.allclose(fast(x), module(x), atol=1e-5)
kernels = sys.modules[type(fast).__module__ + "_kernels"]
counts = kernels.counts()
fast(torch.randn(3, {WIDTH}))
again = warpsmith.load("last", **options)
print(json.dumps({{
    "same": same, "shared": fast.scale is module.scale, "training": fast.training, "hooks": len(seen),
    "fused": counts["fused"], "original": kernels.counts()["original"], "class": again.__name__,
    "rewritten": type(fast) is not Shifted,
}}))
"""
TYPED_IN = """
import torch, warpsmith
from torch import nn
from sandbox.errors import TaskError
class Typed(nn.Module):
    def forward(self, x): return x + 1
try:
    warpsmith.optimize(Typed(), torch.randn(4), model="openai/test")
except TaskError as error:
    print(error)
"""


def run(code, folder, *arguments, **changes):
    environment = {**os.environ, **UNCOMPILED, "WARPSMITH_HOME": str(folder / "home"), **changes}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


@pytest.mark.timeout(300)
def test_a_module_comes_back_in_its_landed_form_and_its_project_is_untouched(tmp_path):
    (tmp_path / "shifted.py").write_text(MODULE)
    with OpenAIServer(SCRIPT) as server:
        options = {
            "model": "openai/test",
            "api_base": server.base_url,
            "cache": str(tmp_path / "cache"),
            "env": UNCOMPILED,
        }
        done = run(PROGRAM, tmp_path, json.dumps(options), OPENAI_API_KEY="none")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "same": True,
        "shared": True,
        "training": False,
        "hooks": 3,
        "fused": 1,
        "original": 1,
        "class": "Shifted",
        "rewritten": True,
    }
    assert "attempt 1: reward" in done.stderr
    assert (tmp_path / "shifted.py").read_text() == MODULE
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"shifted.py", "home", "cache"}


def test_what_cannot_be_a_task_is_said_before_a_model_is_asked(tmp_path):
    told = run(TYPED_IN, tmp_path).stdout
    assert told.startswith("No source file defines it")
    own = tmp_path / "own"
    (own / "agent").mkdir(parents=True)
    (own / "agent" / "__init__.py").touch()
    done = run("import warpsmith; warpsmith.load('last')", own)
    assert "This program's own package 'agent'" in done.stderr


def test_importing_it_loads_nothing_heavy_nor_any_package_of_its_own():
    code = "import sys; before = set(sys.modules); import warpsmith; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name.partition(".")[0] for name in loaded} & {"torch", "litellm", "mcp", "agent", "sandbox", "app"}
