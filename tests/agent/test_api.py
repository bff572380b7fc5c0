"""The Python API, in programs of their own. What a full verdict of a form takes is too long for here: tests/gpu has the whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from agent import events as ev
from agent.landing import VerifiedInputs, landed_form
from agent.session import create_session
from agent.store import SessionWriter
from sandbox.snapshot import write_snapshot
from tests.agent.landing.example import ORIGINAL, SIGNATURE, accepted, make_project, verdict
from tests.agent.support import MODULE, UNCOMPILED, make_settings
from tests.agent.test_end_to_end import CANDIDATE, KERNEL
from tests.servers.openai_server import Call, OpenAIServer, Reply

pytestmark = pytest.mark.slow

SCRIPT = [
    Reply(
        text="One fused pass.",
        calls=[
            Call("Write", {"file_path": "kernels/shifted.cpp", "content": KERNEL.replace("return 0;", "return 0")}),
            Call("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
            Call("Check"),
        ],
    ),
    Reply(text="I give up."),
    Reply(text="I do not go on."),
]
ASKING = """
import json, sys, torch, warpsmith
from sandbox.errors import LandingRefused
from shifted import Shifted

module, drawn = Shifted(256).eval(), torch.random.get_rng_state()
x = torch.randn(32, 256, generator=torch.Generator().manual_seed(0))
try:
    warpsmith.optimize(module, x, init="256", **json.loads(sys.argv[1]))
except LandingRefused as refused:
    print(refused.what)
print(torch.equal(torch.random.get_rng_state(), drawn))
"""
CHECKING = """
import json, sys, torch, warpsmith
from shifted import Shifted

given = Shifted(256).eval(), sys.argv[2], torch.randn(32, 256)
for asked in (given, ("shifted.py:Shifted", sys.argv[2])):
    inputs = {} if len(asked) == 3 else {"inputs": "torch.randn(32, 256)"}
    verdict = warpsmith.check(*asked, init="256", **inputs, **json.loads(sys.argv[1]))
    print(verdict.reward, verdict.tier, verdict.build.diagnostics[0].line)
"""
LOADING = """
import sys, torch, warpsmith
from shop.blocks import Block, Result
from shop.parts import REGISTRY

module = Block(8).eval()
module.scale.by.fill_(2.0)
seen = []
module.register_forward_hook(lambda *_: seen.append("hook"))
fast = warpsmith.load(sys.argv[1], module)
x = torch.randn(4, 8)
with torch.no_grad():
    torch.testing.assert_close(fast(x).value, module(x).value)
    assert type(fast(x)) is Result, "the record is the module's own"
kernels = sys.modules[type(fast).__module__ + "_kernels"]
assert (kernels.counts()["fused"], kernels.counts()["original"]) == (2, 0), kernels.counts()
assert fast(torch.randn(3, 8)).value.shape == (3, 8)
assert kernels.counts()["original"] == 1
assert fast.weight is module.weight and fast.scale.by is module.scale.by and not fast.training
assert type(fast) is not Block and len(seen) == 4
assert warpsmith.load(sys.argv[1]) is type(fast)
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


def test_optimize_runs_a_session_and_says_why_nothing_came_of_it(tmp_path):
    (tmp_path / "shifted.py").write_text(MODULE)
    with OpenAIServer(SCRIPT) as server:
        options = {
            "model": "openai/test",
            "api_base": server.base_url,
            "cache": str(tmp_path / "cache"),
            "env": UNCOMPILED,
        }
        done = run(ASKING, tmp_path, json.dumps(options), OPENAI_API_KEY="none")
    assert done.stdout.splitlines() == ["There is nothing to load: no correct candidate in 1 attempts.", "True"], (
        done.stderr
    )
    assert "attempt 1: reward -1" in done.stderr
    assert (tmp_path / "shifted.py").read_text() == MODULE
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"shifted.py", "home", "cache"}
    [captured] = (tmp_path / "home" / "recordings").glob("*/Shifted/manifest.json")
    assert not json.loads(captured.read_text())["gradients"], "a module in eval mode is not trained"


def test_check_judges_a_candidate_for_a_module_and_for_a_target(tmp_path):
    (tmp_path / "shifted.py").write_text(MODULE)
    broken = {"shifted.py": CANDIDATE.encode(), "kernels/shifted.cpp": KERNEL.replace("return 0;", "return 0").encode()}
    mine = write_snapshot(broken, tmp_path / "mine")
    options = json.dumps({"cache": str(tmp_path / "cache"), "device": "cpu", "env": UNCOMPILED})
    done = run(CHECKING, tmp_path, options, str(mine))
    assert done.stdout.splitlines() == ["-1 quick 13"] * 2, done.stderr
    assert not (tmp_path / "home").exists(), "nothing is kept of it"


def test_a_form_takes_the_place_of_a_module_with_its_state_hooks_and_mode(tmp_path):
    spec, state = make_project(tmp_path / "project"), accepted()
    verified = VerifiedInputs.of(spec, SIGNATURE, ORIGINAL.encode())
    folder = create_session(spec, make_settings(tmp_path), tmp_path / "home")
    stream = SessionWriter(folder)
    files = {path: stream.blob(content) for path, content in state.items()}
    whole = {"blocks.py": stream.blob(ORIGINAL.encode())}
    stream.append(ev.SessionStarted(task=spec.to_json(), model="", device="cpu", versions={}, files=whole))
    stream.append(ev.Attempt(attempt=1, files=files, verdict=verdict().to_json()))
    stream.close()
    form = write_snapshot(
        landed_form(spec, {"blocks.py": ORIGINAL.encode()}, state, verdict(), verified), folder / "form" / "1"
    )
    told = {"file": "blocks.py", "class": "Block", "module": "shop.blocks", "root": str(spec.root), "init": "8"}
    (form / "form.json").write_text(json.dumps({**told, "kernels": "blocks_kernels"}))
    done = run(LOADING, spec.root, str(folder), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr


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
