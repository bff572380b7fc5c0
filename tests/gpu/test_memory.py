"""A task whose tensors fill 60 % of the GPU, half of it outputs: judged, and never more of the GPU taken than there is.

Run it alone on a GPU that nobody else uses: ``pytest -s tests/gpu/test_memory.py``. It takes some minutes: outputs cross through
the host's memory, and so do inputs that fit on the device only once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.errors import TaskError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.machine.devices import gpu_of, list_gpus, nvml
from sandbox.progress import Progress, Stage
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict
from tests.scale_task import reference, write_candidate, write_task

pytestmark = pytest.mark.gpu

COLUMNS = 16384
LIMITS = JudgeLimits(
    bench_seconds=600.0,
    open_seconds=600.0,
    call_seconds=60.0,
    compile_seconds=0.0,
    quick=TierLimits(cases=2, placements=1, profile_seconds=1.0, pairs=20, least_pairs=5),
)
"""Memory is looked at here: one placement needs as much as five, and the compiler's own needs are the kinds' part."""


def rows_for(share: float) -> int:
    """Rows with which two inputs and the output fill a share of the GPU."""
    return int(share * list_gpus()[0].memory / (3 * 4 * COLUMNS))


class Peak:
    """The most memory of the GPU that was in use at one moment."""

    def __init__(self) -> None:
        self.bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        api, gpu = nvml(), gpu_of("cuda:0")
        assert gpu is not None
        handle = api.nvmlDeviceGetHandleByUUID(gpu.uuid)
        while not self._ended.wait(0.01):
            self.bytes = max(self.bytes, int(api.nvmlDeviceGetMemoryInfo(handle).used))


def told() -> Progress:
    """Print each stage with the seconds since now: where the time goes is what is asked when it runs out."""
    started = time.monotonic()

    def tell(stage: Stage) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {stage.part}: {stage.text}", flush=True)

    return tell


def judged(spec: TaskSpec, folder: Path, scratch: Path) -> Verdict:
    with Judge(
        spec,
        isolation=best_isolation(),
        cache=scratch / "cache",
        scratch=scratch / "scratch",
        progress=told(),
        limits=LIMITS,
    ) as judge:
        return judge.check(folder)


@pytest.fixture
def peak() -> Iterator[Peak]:
    found = Peak()
    yield found
    found.end()


def test_a_task_of_60_percent_of_the_gpu_is_judged(tmp_path: Path, peak: Peak) -> None:
    spec = write_task(tmp_path, reference(rows_for(0.6), COLUMNS), device="cuda:0")
    folder = write_candidate(tmp_path / "candidate", suffix=".cu")
    verdict = judged(spec, folder, tmp_path)
    assert verdict.correct, verdict.reason
    assert verdict.verify is not None
    assert any("the oracle holds 16 of" in note for note in verdict.verify.notes)
    assert verdict.profile is not None
    assert verdict.profile.device_us > 0, verdict.profile.disturbed
    assert verdict.reward in (1, 2, 3)
    print(f"{peak.bytes / list_gpus()[0].memory:.0%} of the GPU at most; {verdict.seconds}; {verdict.profile.speedup}")


def test_inputs_that_fit_only_once_wait_in_the_hosts_memory(tmp_path: Path) -> None:
    """Nearly all of the 60 % are inputs: a sum along rows."""
    rows = int(0.58 * list_gpus()[0].memory / (4 * COLUMNS))
    source = (
        "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        f"        return x.sum(1)\n\ndef get_inputs():\n    return [torch.rand({rows}, {COLUMNS})]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    spec = write_task(tmp_path, source, device="cuda:0", policy="library-ok")
    folder = tmp_path / "candidate"
    folder.mkdir()
    (folder / "model_new.py").write_text(source.replace("class Model(", "class ModelNew("))
    verdict = judged(spec, folder, tmp_path)
    assert verdict.correct, verdict.reason


def test_a_task_that_cannot_fit_is_refused_with_its_numbers(tmp_path: Path) -> None:
    source = (
        "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        f"        return x[:, None].expand(-1, {COLUMNS}).contiguous()\n\n"
        f"def get_inputs():\n    return [torch.rand({int(0.6 * list_gpus()[0].memory / (4 * COLUMNS))})]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    spec = write_task(tmp_path, source, device="cuda:0")
    judge = Judge(
        spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch", limits=LIMITS
    )
    with pytest.raises(TaskError, match=r"outputs twice \(\d+\.\d GiB\)"), judge:
        pass
