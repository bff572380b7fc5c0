"""The trainer on GPUs: in bfloat16, on two of them through NCCL as on one, and what it says when memory is used up."""

import math
import os
import subprocess
import sys

import pytest
import torch

from sandbox.errors import EnvironmentFault
from tests.trainer.made import episodes, learner_over, training_set
from trainer import ppo
from trainer.policy.tiny import write_tiny_policy
from trainer.run import metrics
from trainer.run.faults import told
from trainer.run.presets import Recipe
from trainer.run.processes import Processes

pytestmark = pytest.mark.gpu
SETTINGS = ("actor_lr=1e-3", "critic_lr=1e-3", "warm_up=1", "tokens=40", "reject_k3=none", "batch=4")
CLOSE = {"rel": 0.05, "abs": 0.02}
"""Two orders of summation in bfloat16."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_policy(tmp_path_factory.mktemp("models") / "tiny", vocabulary=400)


def train(data, model, out, processes, *others):
    """Run two steps of PPO over a set on so many GPUs, and return their numbers."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m", "trainer"]
    stage = ["ppo", str(data), "--model", str(model), "--out", str(out), "--device", "cuda", "--steps", "2", *others]
    settings = [argument for setting in SETTINGS for argument in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, *launcher, *stage, *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return metrics.read(out / "metrics.jsonl")


@pytest.mark.parametrize("adapters", [(), ("--lora", "8")], ids=["all-weights", "adapters"])
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_equal_one(tiny, tmp_path, adapters):
    data = training_set(tmp_path / "set", tiny, episodes(8))
    one, two = (train(data, tiny, tmp_path / str(count), count, *adapters) for count in (1, 2))
    for name in (
        "reward",
        "entropy",
        "explained_variance",
        "critic_loss",
        "actor_loss",
        "actor_norm",
        "critic_norm",
        "k3",
    ):
        for alone, both in zip(one, two, strict=True):
            assert both[name] == pytest.approx(alone[name], **CLOSE), name
    parts = [path.name for path in (tmp_path / "2" / "checkpoints" / "step-000002").glob("part-*")]
    assert len(parts) == 2
    going_on = train(data, tiny, tmp_path / "2", 1, *adapters)
    assert [line["step"] for line in going_on] == [1, 2]


def test_before_a_step_the_ratio_is_one_in_bfloat16_too(tiny):
    """Old and new log-probabilities come from the same rows in the same type, so they are the same numbers."""
    made = episodes(8)
    on_gpu = Processes(0, 1, torch.device("cuda", 0))
    learner = learner_over(tiny, trains=["policy", "critic"], processes=on_gpu, actor_lr=0.0)
    numbers = ppo.update(learner, made)
    on_cpu = ppo.update(learner_over(tiny, trains=["policy", "critic"], actor_lr=0.0), made)
    assert numbers["ratio_min"] == numbers["ratio_max"] == 1.0
    assert numbers["memory_gib"] > 0
    for name in ("entropy", "actor_loss", "critic_loss"):
        assert numbers[name] == pytest.approx(on_cpu[name], rel=0.02), name
    assert all(math.isfinite(value) for value in numbers.values() if value is not None)


def test_memory_used_up_is_told_with_how_much_there_is():
    on_gpu = Processes(0, 1, torch.device("cuda", 0))
    with (
        pytest.raises(EnvironmentFault, match=r"memory of cuda:0 is used up.*GiB at most.*--set tokens=16384"),
        told(Recipe(), on_gpu),
    ):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
