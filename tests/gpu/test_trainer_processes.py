"""The trainer on GPUs: in bfloat16, on two of them through NCCL as on one, and what it says when memory is used up."""

import math
import os
import subprocess
import sys

import pytest
import torch

from sandbox.errors import EnvironmentFault
from tests.gpu import trainer_steps
from tests.trainer.made import episodes, learner_over
from trainer import ppo
from trainer.policy.tiny import write_tiny_policy
from trainer.run import metrics
from trainer.run.faults import told
from trainer.run.presets import Recipe
from trainer.run.processes import Processes

pytestmark = pytest.mark.gpu
CLOSE = {"rel": 0.05, "abs": 0.02}
"""Two orders of summation in bfloat16."""
COMPARED = ("reward", "entropy", "explained_variance", "critic_loss", "actor_loss", "actor_norm", "critic_norm", "k3")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_policy(tmp_path_factory.mktemp("models") / "tiny", vocabulary=400)


@pytest.fixture
def gpu():
    return Processes(0, 1, torch.device("cuda", 0))


def test_memory_used_up_is_told_with_how_much_there_is(gpu):
    with (
        pytest.raises(EnvironmentFault, match=r"memory of cuda:0 is used up.*GiB at most.*--set tokens=16384"),
        told(Recipe(), gpu),
    ):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")


def test_before_a_step_the_ratio_is_one_in_bfloat16_too(tiny, gpu):
    """Old and new log-probabilities come from the same rows in the same type, so they are the same numbers."""
    made, both = episodes(8), ["policy", "critic"]
    numbers = ppo.update(learner_over(tiny, trains=both, processes=gpu, actor_lr=0.0), made)
    on_cpu = ppo.update(learner_over(tiny, trains=both, actor_lr=0.0), made)
    assert numbers["ratio_min"] == numbers["ratio_max"] == 1.0
    assert numbers["memory_gib"] > 0
    for name in ("entropy", "actor_loss", "critic_loss"):
        assert numbers[name] == pytest.approx(on_cpu[name], rel=0.02), name
    assert all(math.isfinite(value) for value in numbers.values() if value is not None)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_equal_one_which_goes_on_from_their_checkpoint(tiny, tmp_path, gpu):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    steps = ["-m", "tests.gpu.trainer_steps", str(tiny), str(tmp_path / "two")]
    subprocess.run([*launcher, *steps], env=quiet, check=True, timeout=90)
    trainer_steps.take(gpu, tiny, tmp_path / "one")
    for name in trainer_steps.ADAPTERS:
        one, two = (metrics.read(tmp_path / count / name / "metrics.jsonl") for count in ("one", "two"))
        for alone, both in zip(one, two, strict=True):
            for number in COMPARED:
                assert both[number] == pytest.approx(alone[number], **CLOSE), (name, number)
        _, learner = trainer_steps.opened(gpu, tiny, tmp_path / "two", name)
        assert learner.step == 2
        found = learner.logprobs(learner.batch(episodes(8))).logp
        _, other = trainer_steps.opened(gpu, tiny, tmp_path / "one", name)
        assert torch.allclose(found, other.logprobs(other.batch(episodes(8))).logp, atol=0.05)
