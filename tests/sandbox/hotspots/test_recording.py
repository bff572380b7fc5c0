"""Scripts as developers have them, recorded: what is seen of their modules, and that they run as they would anyway."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from sandbox.hotspots.rank import rank
from tests.sandbox.hotspots.conftest import Run, class_of

pytestmark = pytest.mark.timeout(300)

LATE_IMPORT_WORKERS_AND_A_HARD_END = """\
import os, sys
from net_data import Rows

def main():
    assert os.environ["THEIRS"] == "ran", "their own sitecustomize did not run"
    assert sys.modules["sitecustomize"].__file__.startswith(os.environ["THEIR_FOLDER"])
    assert not any("recorder" in entry for entry in sys.path), sys.path
    import torch
    from torch.utils.data import DataLoader
    from net.blocks import Net
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for how in ("fork", "spawn"):
        for rows in DataLoader(Rows(), batch_size=8, num_workers=1, multiprocessing_context=how):
            model(rows).pow(2).mean().backward()
            optimizer.step()
    os._exit(7)

if __name__ == "__main__":
    main()
"""

ROWS = """\
import torch
from torch import nn

class Augment(nn.Module):
    def forward(self, x):
        return x + 1

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.augment = Augment()

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return self.augment(torch.full((16,), float(index)))
"""

DISTRIBUTED = """\
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from net.blocks import Net

distributed.init_process_group("gloo")
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.randn(4, 16)).pow(2).mean().backward()
    optimizer.step()
distributed.destroy_process_group()
"""

COMPILED_AND_KILLED = """\
import os, signal
import torch
from net.blocks import Block, Net

class Around(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wrapped = torch.compile(Net(), backend="eager", fullgraph=True)
        self.itself = Block(4)
        self.itself.compile(backend="eager", fullgraph=True)

    def forward(self, x):
        return self.itself(self.wrapped(x))

torch._dynamo.config.error_on_recompile = True
around = Around()
with torch.no_grad():
    for _ in range(8):
        around(torch.randn(4, 16))
os.kill(os.getpid(), signal.SIGKILL)
"""

LARGE = """\
import torch
from net.blocks import Block

block = Block(4200)
with torch.no_grad():
    for _ in range(9):
        block(torch.zeros(1, 4200))
"""

BACKWARD = """\
import time
import torch
from torch import nn

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        time.sleep(0.02)
        return gradient * 2

class Inner(nn.Module):
    def forward(self, x):
        return Slow.apply(x)

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.inner(x * self.scale).sin()

model = Outer()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(3):
    loss = model(torch.ones(2, 4)).sum() * 0.0 + number
    loss.backward()
    optimizer.step()
"""

EVERYTHING = """\
import copy, pickle
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Inner(nn.Module):
    def forward(self, x):
        return {"y": x.sin()}

class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1).eval()
        self.scripted = torch.jit.script(nn.Linear(16, 4))
        self.linear, self.inner = nn.Linear(16, 16), Inner()

    def forward(self, x):
        padding = torch.tensor([[False, True], [False, False]])
        with torch.no_grad():
            rows = self.encoder(torch.randn(2, 2, 16), src_key_padding_mask=padding)
            self.scripted(rows)
            torch.jit.trace(self.linear, rows)
        return checkpoint(lambda x: self.inner(x)["y"], x * 2, use_reentrant=True)

everything = Everything()
for _ in range(2):
    x = torch.randn(2, 4, requires_grad=True)
    everything(x).sum().backward()
    assert x.grad is not None
try:
    everything(None)
except TypeError:
    copy.deepcopy(everything.linear), pickle.dumps(everything.linear)
"""


def test_workers_are_not_recorded_their_sitecustomize_runs_and_a_hard_end_leaves_what_was_known(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = project / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['THEIRS'] = 'ran'\n")
    (project / "net_data.py").write_text(ROWS)
    monkeypatch.setenv("PYTHONPATH", str(own))
    monkeypatch.setenv("THEIR_FOLDER", str(own))
    end, recording = run(LATE_IMPORT_WORKERS_AND_A_HARD_END)
    assert end.status == 7
    assert [process.complete for process in recording.processes] == [False]
    assert not any(each.name == "Augment" for each in recording.processes[0].classes)
    assert class_of(recording, "Block").calls >= 6
    assert recording.processes[0].step_name == "SGD"


def test_every_rank_of_a_distributed_run_is_recorded(run: Run, tmp_path: Path) -> None:
    launcher = ("-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    end, recording = run(DISTRIBUTED, *launcher, capture_bytes=1 << 20)
    assert end.status == 0
    assert [process.rank for process in recording.processes] == [0, 1]
    assert class_of(recording, "Block", 0).calls == class_of(recording, "Block", 1).calls == 2 * 3
    ranked = {each.name: each for each in rank(recording)}
    assert ranked["Block"].origin == "project"
    assert ranked["Block"].calls_per_step == 3
    assert ranked["DistributedDataParallel"].origin == "torch"
    assert recording.processes[1].captures == {}
    manifest = json.loads((tmp_path / "recording" / "captures" / "Block" / "manifest.json").read_text())
    assert manifest["refused"] == ""
    assert recording.processes[0].captures["net.blocks:Block"] == "Block"


def test_compiled_modules_are_seen_as_a_whole_and_compiled_once(run: Run) -> None:
    end, recording = run(COMPILED_AND_KILLED)
    assert end.status == -signal.SIGKILL, "it was compiled again, or its graph broke"
    seen = {(each.name, each.compiled, each.instances) for each in recording.processes[0].classes}
    assert seen == {("Around", False, 1), ("Net", True, 1), ("Block", True, 1)}


@pytest.mark.parametrize("asked", [False, True])
def test_much_state_is_described_unless_its_copy_is_asked_for(run: Run, tmp_path: Path, asked: bool) -> None:
    run(LARGE, capture_bytes=1 << 20, capture_weights=asked)
    capture = tmp_path / "recording" / "captures" / "Block"
    manifest = json.loads((capture / "manifest.json").read_text())
    assert manifest["state"]["copied"] == (capture / "state.pt").exists() == asked
    assert any("--capture-weights" in note for note in manifest["notes"]) != asked


def test_the_backward_pass_belongs_to_the_module_whose_nodes_run(run: Run) -> None:
    end, recording = run(BACKWARD)
    assert end.status == 0
    inner, outer = class_of(recording, "Inner"), class_of(recording, "Outer")
    assert inner.calls == outer.calls == 2
    assert inner.backward_own.host >= 2 * 20_000
    assert outer.backward_total.host >= outer.backward_own.host + inner.backward_own.host - 1
    assert recording.processes[0].backward.host >= outer.backward_total.host
    assert inner.backward_mine == inner.backward_own == inner.backward_total
    assert recording.processes[0].losses == (0.0, 1.0, 2.0)
    assert outer.file.endswith("train.py")
    assert outer.line == 19


def test_modules_of_every_kind_are_called_and_none_ends_the_recording(run: Run) -> None:
    end, recording = run(EVERYTHING)
    assert end.status == 0
    assert recording.faults == ()
    assert class_of(recording, "Inner").calls == 2 + 2, "once in the forward pass, once more in the backward pass"
    layer = class_of(recording, "TransformerEncoderLayer")
    assert any("nested" in each for variant in layer.variants for each in variant.inputs)
    assert class_of(recording, "RecursiveScriptModule").calls == 2
