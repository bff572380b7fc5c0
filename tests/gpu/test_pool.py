"""Judges that share one GPU, and what the watch reads of it: run on a machine with a GPU, ``pytest tests/gpu/test_pool.py``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.machine.devices import gpu_of, list_gpus, resolve_device, visible_gpus
from sandbox.timing.gpu_watch import GpuWatch, watch_device
from sandbox.wire import device_name
from tests.scale_task import reference, write_candidate, write_task

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
SPIN = """
import sys, time, torch
x = torch.randn(8192, 8192, device="cuda:0")
print("spinning", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    x @ x
    torch.cuda.synchronize()
"""


def check(folder: Path, target: Path, cache: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "app.cli", "check", str(target), str(folder), "--json", "--device", "cuda:0"]
    return subprocess.Popen(
        [*command, "--cache", cache], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_judges_with_caches_of_their_own_take_turns_and_neither_is_disturbed(tmp_path: Path) -> None:
    spec = write_task(tmp_path, reference(4096, 4096), device="cuda:0")
    folder = write_candidate(tmp_path / "candidate", suffix=".cu")
    both = [check(folder, spec.path, str(tmp_path / f"cache{number}")) for number in (1, 2)]
    told = [judge.communicate(timeout=600) for judge in both]
    verdicts = [json.loads(out) for out, _ in told]
    assert [verdict["profile"]["disturbed"] for verdict in verdicts] == ["", ""], told
    assert [verdict["reward"] is not None for verdict in verdicts] == [True, True]
    assert all({"sm_mhz", "memory_mhz", "celsius_highest"} <= set(v["environment"]["clocks"]) for v in verdicts)
    waited = [verdict["seconds"]["waiting"] for verdict in verdicts]
    assert max(waited) > 0
    assert any("waiting for pid" in err for _, err in told)


def test_the_watch_reads_clocks_and_sees_a_busy_neighbour() -> None:
    gpu = gpu_of("cuda:0")
    assert gpu is not None
    spinning = subprocess.Popen([sys.executable, "-c", SPIN, "6"], stdout=subprocess.PIPE, text=True)
    assert spinning.stdout is not None
    spinning.stdout.readline()
    watch = watch_device("cuda:0", device_name(gpu.uuid, ""))
    assert isinstance(watch, GpuWatch)
    seen = []
    for _ in range(20):
        time.sleep(0.2)
        seen.append(watch.trouble({spinning.pid}))
    clocks, notes = watch.clocks(), watch.notes()
    foreign = watch.trouble(set())
    spinning.wait()
    watch.close()
    assert clocks["sm_mhz"] > 300
    assert clocks["memory_mhz"] > 300
    assert 10 < clocks["celsius_highest"] < 110
    if any("cannot be seen from here" in note for note in notes):
        pytest.skip("NVML lists no processes in this container")
    assert not [trouble for trouble in seen if "another process" in trouble]
    assert foreign == "" or str(spinning.pid) in foreign


def test_a_device_is_chosen_once_a_process() -> None:
    first = resolve_device("cuda")
    assert first == resolve_device("auto")
    assert gpu_of(first) in visible_gpus()
    assert list_gpus()[0].uuid.startswith("GPU-")
