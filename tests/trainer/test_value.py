from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.trainer.made import episodes, learner_over, training_set
from trainer import value
from trainer.__main__ import main
from trainer.run import metrics
from trainer.run.batch import Batch
from trainer.run.options import part_of


def test_at_lambda_one_the_target_of_every_action_is_what_was_earned():
    batch = Batch.of(episodes(4), 1000)
    values = torch.randn(batch.actions, generator=torch.Generator().manual_seed(0))
    advantages, targets = value.estimates(batch, values, 1.0, [1.0] * 4)
    assert torch.allclose(targets, batch.spread(batch.rewards).float(), atol=1e-5)
    assert torch.allclose(advantages, targets - values, atol=1e-5)


def test_at_lambda_zero_the_target_is_the_next_value_and_nothing_crosses_episodes():
    batch = Batch.of(episodes(3), 1000)
    values = torch.randn(batch.actions, generator=torch.Generator().manual_seed(1))
    targets = batch.parted(value.estimates(batch, values, 1.0, [0.0] * 3)[1])
    for target, own, reward in zip(targets, batch.parted(values), batch.rewards, strict=True):
        assert torch.allclose(target, torch.cat([own[1:], reward.float()[None]]), atol=1e-5)


def test_the_loss_is_half_the_squared_error_averaged_over_each_episode_first(model):
    made = episodes(3)
    learner = learner_over(model, trains=["critic"], averaging="episode", lam_critic=1.0)
    numbers = value.update(learner, made)
    expected = np.mean([0.5 * episode.reward**2 for episode in made])  # a new critic expects 0 everywhere
    assert numbers["critic_loss"] == pytest.approx(expected, rel=1e-5)
    assert numbers["explained_variance"] == pytest.approx(0.0, abs=1e-6)


def test_nothing_is_explained_where_all_earned_the_same():
    batch = Batch.of([replace(episode, reward=1.0) for episode in episodes(3)], 1000)
    assert value.explained(torch.zeros(batch.actions), batch) is None


def test_what_is_held_out_has_the_rewards_of_the_rest():
    rewards = [-1.0] * 50 + [1.0] * 30 + [3.0] * 20
    chosen, held_out = value.parted(rewards, seed=0)
    assert sorted(chosen + held_out) == list(range(100))
    assert [sum(rewards[number] == reward for number in held_out) for reward in (-1.0, 1.0, 3.0)] == [5, 3, 2]
    assert value.parted(rewards, seed=1)[1] != held_out


def test_of_very_few_and_of_equals_nothing_is_held_out():
    assert value.parted([1.0, -1.0, 1.0], seed=0)[1] == []
    chosen, held_out = value.parted([3.0] * 20, seed=0)
    assert (sorted(chosen), held_out) == (list(range(20)), [])


def test_a_plateau_is_where_nothing_gets_better_any_more():
    def history(*values):
        return [{"step": step + 1, "held_out_variance": value} for step, value in enumerate(values)]

    assert not value.at_plateau(history(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    assert not value.at_plateau(history(0.5, 0.4, 0.3, 0.2, 0.1))
    assert value.at_plateau(history(0.1, 0.5, 0.4, 0.3, 0.501, 0.1, 0.2))


def test_a_run_learns_what_can_be_told_from_the_prompt_and_ends_where_it_was_best(model, tmp_path, capsys):
    """The first token of a prompt gives the reward away."""
    made = []
    for episode in episodes(16, longest=20):
        for segment in episode.segments:
            segment.ids[0] = 10 + int(episode.reward)
        made.append(episode)
    data, out = training_set(tmp_path / "set", model, made), tmp_path / "run"
    settings = ["--set", "critic_lr=0.01", "--set", "warm_up=1", "--set", "batch=12", "--steps", "30"]
    arguments = ["value", str(data), "--model", str(model), "--out", str(out), "--device", "cpu", *settings]
    assert main(arguments) == 0
    lines = metrics.read(out / "metrics.jsonl")
    best = metrics.best(lines, "held_out_variance")
    assert max(line["held_out_variance"] for line in lines) > 0.5
    assert (out / "latest").read_text() == f"step-{best:06d}\n"
    assert part_of(out, "critic") == (out / "checkpoints" / f"step-{best:06d}" / "critic").resolve()
    assert part_of(out, "policy") == model.resolve()

    capsys.readouterr()
    assert main(arguments) == 0
    assert f"The critic was best at step {best}" in capsys.readouterr().err
    assert metrics.read(out / "metrics.jsonl") == lines
