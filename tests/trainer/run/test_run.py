"""The loop over a run's steps: what it leaves on the disk, how it goes on, and what stops it."""

import json
from itertools import chain

import pytest
import torch

from sandbox.errors import EnvironmentFault, UsageError
from tests.trainer.made import ALONE, episodes, learner_over, training_set
from trainer import rft
from trainer.__main__ import main
from trainer.policy.tiny import write_tiny_policy
from trainer.run import metrics
from trainer.run.guards import Stopped
from trainer.run.optimizer import NotFinite
from trainer.run.presets import Recipe
from trainer.run.run import Origin, Run


def opened(folder, model, **settings):
    """A run of fine-tuning in this process, with a learner that stands where it stands."""
    run = Run(folder, Origin("test", Recipe(**settings), str(model)), ALONE)
    learner = learner_over(model, trains=["policy"], **settings)
    run.resume(learner)
    return run, learner


def test_the_same_command_goes_on_and_ends_as_if_it_had_never_stopped(model, tmp_path):
    data = training_set(tmp_path / "set", model, episodes(10))
    common = ["rft", str(data), "--model", str(model), "--set", "batch=3", "--device", "cpu"]
    assert main([*common, "--out", str(tmp_path / "whole"), "--steps", "5"]) == 0
    assert main([*common, "--out", str(tmp_path / "parts"), "--steps", "2"]) == 0
    assert main([*common, "--out", str(tmp_path / "parts"), "--steps", "5"]) == 0
    whole, parts = (
        (tmp_path / name / "checkpoints" / "step-000005" / "part-00000.safetensors").read_bytes()
        for name in ("whole", "parts")
    )
    assert whole == parts
    rewards = [
        [line["reward"] for line in metrics.read(tmp_path / name / "metrics.jsonl")] for name in ("whole", "parts")
    ]
    assert rewards[0] == rewards[1]


def test_a_run_of_other_options_is_refused_by_what_differs(model, tmp_path, capsys):
    data = training_set(tmp_path / "set", model, episodes(4))
    common = [
        "rft",
        str(data),
        "--model",
        str(model),
        "--out",
        str(tmp_path / "run"),
        "--steps",
        "1",
        "--device",
        "cpu",
    ]
    assert main(common) == 0
    assert main([*common, "--set", "actor_lr=0.1"]) == 2
    assert "actor_lr was 3e-06 and is 0.1 now" in capsys.readouterr().err
    assert main([*common, "--set", "tokens=100", "--steps", "2"]) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]["tokens"] == 100


def test_a_guard_goes_back_to_where_the_weights_were_not_in_question(model, tmp_path):
    run, learner = opened(tmp_path, model)
    entropies = iter([1.0, 1.0, 1.0, 1.0, 5.0])
    kept = {}

    def once():
        numbers = {**rft.update(learner, episodes(3)), "entropy": next(entropies)}
        kept[learner.step + 1] = {name: tensor.clone() for name, tensor in learner.tensors().items()}
        return numbers

    run.checkpoints = type(run.checkpoints)(tmp_path, ALONE, kept=3)
    with pytest.raises(
        Stopped, match=r"The entropy jumped to 5 from about 1\. The run was stopped and stands at step 3\."
    ):
        run.train(learner, 10, once)
    assert (run.checkpoints.latest, run.checkpoints.steps()) == (3, [2, 3])
    again, fresh = opened(tmp_path, model)
    assert (fresh.step, len(again.history)) == (3, 3)
    assert all(torch.equal(tensor, kept[3][name]) for name, tensor in fresh.tensors().items())


def test_a_guard_at_the_first_steps_goes_back_to_the_beginning(model, tmp_path):
    run, learner = opened(tmp_path, model)
    with pytest.raises(Stopped, match="stands where it began"):
        run.record(learner, {"k3": 9.0})
    assert opened(tmp_path, model)[1].step == 0


def test_a_gradient_that_is_no_number_changes_nothing(model, tmp_path):
    run, learner = opened(tmp_path, model)
    run.train(learner, 1, lambda: rft.update(learner, episodes(3)))
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    batch = learner.batch(episodes(3))
    with pytest.raises(NotFinite, match="gradient of the policy is not a number"):
        run.train(learner, 2, lambda: learner.improve_policy(batch, lambda where, logp: (logp * torch.nan).sum()))
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.tensors().items())
    assert run.checkpoints.latest == 1
    run.train(learner, 2, lambda: rft.update(learner, episodes(3)))
    assert run.checkpoints.latest == 2


def test_memory_used_up_says_what_to_change_and_harms_no_checkpoint(model, tmp_path):
    run, learner = opened(tmp_path, model, tokens=4096)

    def once():
        if learner.step == 2:
            torch.empty(1 << 50)
        return rft.update(learner, episodes(3))

    with pytest.raises(EnvironmentFault, match=r"memory of this machine is used up.*--set tokens=2048.*--lora 16"):
        run.train(learner, 5, once)
    assert run.checkpoints.latest == 2
    assert opened(tmp_path, model, tokens=2048)[1].step == 2


def test_a_pass_takes_every_episode_once_and_the_next_in_another_order(model):
    learner = learner_over(model, trains=[], batch=4)
    passes = [[learner.next_episodes(10) for _ in range(3)] for _ in range(2)]
    assert [sorted(chain.from_iterable(each)) for each in passes] == [list(range(10))] * 2
    assert passes[0] != passes[1]
    assert learner.passed


def test_a_folder_that_is_no_model_is_refused(tmp_path, capsys, model):
    data = training_set(tmp_path / "set", model, episodes(4))
    common = ["rft", str(data), "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert main([*common, "--model", str(tmp_path / "nowhere")]) == 2
    assert "There is no such folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main([*common, "--model", str(tmp_path / "empty")]) == 2
    assert str(tmp_path / "empty") in capsys.readouterr().err


def test_a_set_for_another_tokenizer_is_refused(model, tmp_path, capsys):
    other = write_tiny_policy(tmp_path / "other", layers=1, width=32, vocabulary=500)
    data = training_set(tmp_path / "set", other, episodes(4))
    assert main(["rft", str(data), "--model", str(model), "--out", str(tmp_path / "run"), "--device", "cpu"]) == 2
    assert "The tokenizer does not match" in capsys.readouterr().err


def test_a_folder_of_another_stage_is_refused(model, tmp_path):
    Run(tmp_path, Origin("rft", Recipe(), str(model)), ALONE)
    with pytest.raises(UsageError, match="stage was 'rft' and is 'ppo' now"):
        Run(tmp_path, Origin("ppo", Recipe(), str(model)), ALONE)
