"""Two processes and one: the same numbers, the same weights, and checkpoints that either goes on from."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch
from safetensors.torch import load_file

from sandbox.errors import EnvironmentFault, UsageError
from tests.trainer.made import episodes, training_set
from trainer.__main__ import main
from trainer.run import metrics
from trainer.run.processes import Processes, started

TIMES = {"seconds", "tokens_per_second", "memory_gib"}
SETTINGS = [
    argument
    for setting in ("actor_lr=1e-3", "critic_lr=1e-3", "warm_up=1", "tokens=40", "reject_k3=none")
    for argument in ("--set", setting)
]
"""Rates at which a few steps show, and rows so short that the two processes have different numbers of them."""


def arguments(stage, data, model, out, *others):
    options = ["--model", str(model), "--out", str(out), "--device", "cpu", "--set", "batch=4", *SETTINGS, *others]
    return [stage, str(data), *options]


def two_processes(*trainer):
    """Start a stage under torchrun."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainer"]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen([*launcher, *trainer], env=quiet, stderr=subprocess.PIPE, text=True)


def numbers(run):
    return [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in metrics.read(run / "metrics.jsonl")
    ]


def weights(run, part):
    latest = run / "checkpoints" / (run / "latest").read_text().strip()
    found = {}
    for path in (latest / part).glob("*.safetensors"):
        found |= load_file(path)
    return found


@pytest.fixture
def data(model, tmp_path):
    return training_set(tmp_path / "set", model, episodes(12))


@pytest.mark.slow
def test_two_processes_equal_one_and_each_goes_on_where_the_other_stopped(model, data, tmp_path):
    alone, both = tmp_path / "alone", tmp_path / "both"
    assert main(arguments("ppo", data, model, alone, "--steps", "3")) == 0
    process = two_processes(*arguments("ppo", data, model, both, "--steps", "2"))
    assert process.wait(timeout=250) == 0, process.stderr.read()
    for one, two in zip(numbers(alone)[:2], numbers(both), strict=True):
        assert two == pytest.approx(one, rel=1e-3, abs=1e-6)
    parts = sorted((both / "checkpoints" / "step-000002").glob("part-*"))
    assert [path.name for path in parts] == ["part-00000.safetensors", "part-00001.safetensors"]

    assert main(arguments("ppo", data, model, both, "--steps", "3")) == 0
    for part in ("policy", "critic"):
        one, two = weights(alone, part), weights(both, part)
        assert one.keys() == two.keys()
        for name in one:
            assert torch.allclose(one[name], two[name], atol=2e-5), name


@pytest.mark.slow
def test_a_dead_process_ends_the_run_and_harms_no_checkpoint(model, data, tmp_path):
    out = tmp_path / "run"
    process = two_processes(*arguments("rft", data, model, out, "--steps", "100000"))
    try:
        until = time.monotonic() + 240
        while len(metrics.read(out / "metrics.jsonl")) < 2:
            assert time.monotonic() < until
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        workers = [child for child in psutil.Process(process.pid).children() if "trainer" in child.cmdline()]
        workers[-1].send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) != 0
    finally:
        process.kill()
    stands = int((out / "latest").read_text().removeprefix("step-"))
    assert main(arguments("rft", data, model, out, "--steps", str(stands + 1))) == 0
    assert [line["step"] for line in numbers(out)] == list(range(1, stands + 2))
    state = json.loads((out / "checkpoints" / f"step-{stands + 1:06d}" / "state.json").read_text())
    assert (state["parts"], state["updates"]) == (1, {"policy": stands + 1})


@pytest.mark.parametrize("count", range(1, 8))
def test_each_item_counts_once_and_all_processes_go_through_as_many(count):
    shares = [Processes(rank, 3, torch.device("cpu")).share(range(count)) for rank in range(3)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(item for share in shares for item, counts in share if counts) == list(range(count))


def test_a_device_that_is_none_is_refused():
    with pytest.raises(UsageError, match="'tpu' is no device to train on"), started("tpu"):
        pass
    with pytest.raises(EnvironmentFault, match="There is no GPU 99 here"), started("cuda:99"):
        pass
