from dataclasses import replace

import numpy as np
import pytest
import torch

from sandbox.errors import UsageError
from tests.trainer.made import episodes, learner_over, training_set
from trainer import ppo
from trainer.__main__ import main
from trainer.data.episode import Stage
from trainer.run import metrics
from trainer.run.batch import Batch
from trainer.run.presets import Recipe, preset

BOTH = ["policy", "critic"]


def written_by(learner, made):
    """The same episodes as if the learner's own policy had written them, by the log-probabilities that it gives them."""
    batch = learner.batch(made)
    parts = iter(learner.logprobs(batch).logp.split([s.actions for e in made for s in e.segments]))

    def told(segment):
        logprobs = segment.logprobs.copy()
        logprobs[segment.action] = next(parts).numpy()
        return replace(segment, logprobs=logprobs)

    return [replace(episode, segments=tuple(told(segment) for segment in episode.segments)) for episode in made]


def test_one_step_of_the_published_recipe_by_hand(model):
    """Every number of a first step follows from rewards and lengths alone: the critic expects 0, the ratio is 1."""
    made = episodes(5)
    learner = learner_over(model, trains=BOTH)
    numbers = ppo.update(learner, made)
    advantages = [episode.reward * 0.95 ** np.arange(episode.actions)[::-1] for episode in made]
    assert numbers["actor_loss"] == pytest.approx(-np.mean([each.mean() for each in advantages]), rel=1e-4)
    assert numbers["reward"] == pytest.approx(np.mean([episode.reward for episode in made]))
    assert numbers["critic_loss"] == pytest.approx(0.5 * np.mean([(each**2).mean() for each in advantages]), rel=1e-4)
    assert (numbers["episodes"], numbers["rejected"]) == (5, 0)
    assert numbers["length_clip"] == pytest.approx(0.2)


def test_before_a_step_the_ratio_is_one(model):
    learner = learner_over(model, trains=BOTH, actor_lr=0.0)
    numbers = ppo.update(learner, episodes(5))
    assert numbers["ratio_min"] == pytest.approx(1, abs=1e-4)
    assert numbers["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert numbers["k3"] == pytest.approx(0, abs=1e-8)


def test_how_rows_are_cut_changes_nothing(model):
    made = episodes(6)
    whole, cut = (
        ppo.update(learner_over(model, trains=BOTH, tokens=tokens, whiten=True, averaging="token"), made)
        for tokens in (10_000, 30)
    )
    same = whole.keys() - {"seconds", "tokens_per_second", "memory_gib"}
    assert {name: whole[name] for name in same} == pytest.approx({name: cut[name] for name in same}, rel=2e-3, abs=1e-6)


def test_rewarded_actions_become_likelier_and_punished_ones_less(model):
    made = [replace(episode, reward=(1.0, -1.0)[number % 2]) for number, episode in enumerate(episodes(6))]
    learner = learner_over(model, trains=BOTH, lam_actor=1.0, actor_lr=1e-3, warm_up=1)
    batch = learner.batch(made)
    before = batch.parted(learner.logprobs(batch).logp)
    ppo.update(learner, made)
    after = batch.parted(learner.logprobs(batch).logp)
    moved = [float((now - then).mean()) for now, then in zip(after, before, strict=True)]
    assert min(moved[0::2]) > 0 > max(moved[1::2])


def test_epochs_and_minibatches_are_as_many_updates_and_stay_within_the_clip(model):
    learner = learner_over(model, trains=BOTH, epochs=3, minibatches=2, critic_updates=2, actor_lr=1e-3, warm_up=1)
    numbers = ppo.update(learner, episodes(6))
    assert {name: optimizer.updates for name, optimizer in learner.optimizers.items()} == {"policy": 6, "critic": 2}
    assert numbers["k3"] > 0
    assert numbers["clip_fraction"] > 0


def test_what_counts_as_clipped_goes_by_the_advantages_that_were_learnt_from(model):
    """All earned something, so that advantages have both signs only once they are whitened."""
    made = [replace(episode, reward=(1.0, 2.0)[number % 2]) for number, episode in enumerate(episodes(6))]
    far = {"actor_lr": 1e-2, "warm_up": 1, "epochs": 4, "lam_actor": 1.0}
    learner = learner_over(model, trains=BOTH, whiten=True, **far)
    batch = learner.batch(made)
    old = learner.logprobs(batch).logp
    numbers = ppo.update(learner, made)
    now, better = learner.logprobs(batch).logp, batch.spread(batch.rewards)
    better = better - better.mean()
    assert (better < 0).any()
    ratio = (now - old).exp()
    out = torch.where(better > 0, ratio > 1.28, ratio < 0.8)
    assert numbers["clip_fraction"] == pytest.approx(float(out.float().mean()), abs=1e-6)
    assert out[better < 0].any()


def test_what_its_own_policy_wrote_is_kept_whole_and_what_another_wrote_is_left_out(model):
    learner = learner_over(model, trains=BOTH, importance=2.0, reject_k3=0.01)
    own = written_by(learner, episodes(6))
    foreign = [replace(own[0], segments=tuple(replace(s, logprobs=s.logprobs - 1) for s in own[0].segments)), *own[1:]]
    assert ppo.update(learner_over(model, trains=BOTH, importance=2.0, reject_k3=0.01), own)["rejected"] == 0
    numbers = ppo.update(learner, foreign)
    assert numbers["rejected"] == pytest.approx(1 / 6)
    assert numbers["importance_cut"] > 0


def test_importance_weights_are_bounded_ratios_to_the_policy_that_wrote(model):
    made = episodes(2)
    batch = Batch.of(made, 1000)
    old = batch.behaviour + torch.linspace(-0.5, 3, batch.actions)
    kept, weights = ppo.corrected(batch, old, Recipe(importance=2.0), 0, {})
    assert kept == [0, 1]
    assert torch.allclose(weights, (old - batch.behaviour).exp().clamp(max=2.0))


def test_what_is_too_old_is_left_out_and_nothing_left_is_said(model):
    batch = Batch.of([*episodes(2), replace(episodes(1)[0], policy=replace(episodes(1)[0].policy, version=3))], 1000)
    numbers = {}
    kept, _ = ppo.corrected(batch, torch.zeros(batch.actions), Recipe(version_gap=4), 6, numbers)
    assert (kept, numbers["rejected"]) == ([2], pytest.approx(2 / 3))
    with pytest.raises(UsageError, match="None of 3 episodes was written by a policy close enough"):
        ppo.corrected(batch, torch.zeros(batch.actions), Recipe(version_gap=4), 8, {})


def test_stored_episodes_are_good_for_one_pass_or_until_the_newest_are_too_old(model):
    made = episodes(8)
    assert ppo.steps_over(made, learner_over(model, trains=BOTH, batch=1)) == 8
    learner = learner_over(model, trains=BOTH, batch=1, version_gap=4)
    assert ppo.steps_over(made, learner) == 5
    learner.step = 3  # gone on with
    assert ppo.steps_over(made, learner) == 5
    unknown = [replace(episode, policy=replace(episode.policy, version=-1)) for episode in made]
    assert ppo.steps_over(unknown, learner) == 8


def test_a_batch_that_is_too_old_is_passed_over_while_another_is_not(model):
    learner = learner_over(model, trains=BOTH, batch=1, version_gap=4)
    learner.step = 6
    old = episodes(4)
    fresh = replace(old[0], policy=replace(old[0].policy, version=5))
    assert ppo.next_fresh([*old, fresh], learner) == [fresh]
    assert ppo.next_fresh(old, learner)[0] in old


def test_a_critic_that_explains_nothing_is_replaced_by_the_mean_reward():
    batch = Batch.of(episodes(4), 1000)
    values = torch.randn(batch.actions, generator=torch.Generator().manual_seed(0))
    replaced = ppo.advantages(batch, values, preset("long-horizon"), -0.1)
    assert torch.allclose(replaced, batch.spread(batch.rewards - batch.rewards.mean()).float())
    believed = ppo.advantages(batch, values, preset("long-horizon"), 0.1)
    assert not torch.allclose(replaced, believed)
    assert torch.equal(
        ppo.advantages(batch, values, replace(preset("long-horizon"), baseline_fallback=False), -0.1), believed
    )


def test_likelihood_of_what_earned_something_is_added(model):
    made = episodes(5)
    plain = ppo.update(learner_over(model, trains=BOTH), made)
    added = ppo.update(learner_over(model, trains=BOTH, nll=0.1), made)
    learner = learner_over(model, trains=BOTH)
    batch = learner.batch(made)
    good = batch.spread(batch.rewards > 0)
    expected = plain["actor_loss"] - 0.1 * float(learner.logprobs(batch).logp[good].mean())
    assert added["actor_loss"] == pytest.approx(expected, rel=1e-4)


def test_a_divergence_with_a_weight_keeps_to_the_model_without_adapters(model):
    def gone(weight):
        learner = learner_over(model, trains=BOTH, lora=4, lam_actor=1.0, actor_lr=1e-2, warm_up=1, kl=weight)
        return [ppo.update(learner, episodes(4))["reference_k3"] for _ in range(6)][-1]

    assert 0 < gone(1000.0) < gone(1e-9) / 2


def test_a_divergence_needs_adapters(model):
    with pytest.raises(UsageError, match="--lora"):
        ppo.update(learner_over(model, trains=BOTH, kl=0.1), episodes(2))


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None])
def test_an_episode_without_a_reward_is_refused_by_its_name(model, reward):
    made = [*episodes(2), replace(episodes(1)[0], id="the-odd-one", reward=reward)]
    learner = learner_over(model, trains=BOTH)
    with pytest.raises(UsageError, match=f"its reward is {reward}.*the-odd-one"):
        ppo.update(learner, made)
    assert learner.optimizers["policy"].updates == 0


def test_nothing_eligible_is_said_with_the_reason(model, tmp_path, capsys):
    made = episodes(2, refused={Stage.PPO: "there are no log-probabilities"})
    data = training_set(tmp_path / "set", model, made)
    assert main(["ppo", str(data), "--model", str(model), "--out", str(tmp_path / "run")]) == 2
    assert "2 × there are no log-probabilities" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_adapters_of_policy_and_critic_are_trained_over_one_base(model, tmp_path):
    data = training_set(tmp_path / "set", model, episodes(8))
    common = [
        "--lora",
        "4",
        "--device",
        "cpu",
        "--set",
        "batch=4",
        "--set",
        "reject_k3=none",
        "--set",
        "critic_lr=0.003",
    ]
    value, out = tmp_path / "value", tmp_path / "ppo"
    assert main(["value", str(data), "--model", str(model), "--out", str(value), "--steps", "3", *common]) == 0
    assert main(["ppo", str(data), "--model", str(model), "--critic", str(value), "--out", str(out), *common]) == 0
    lines = metrics.read(out / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert abs(lines[0]["explained_variance"]) > 1e-6  # a new critic expects the same everywhere
    assert all(np.isfinite(line["actor_norm"]) and line["critic_norm"] > 0 for line in lines)
    latest = out / "checkpoints" / "step-000002"
    assert (latest / "policy" / "adapter_config.json").exists()
    assert (latest / "critic" / "value_head.safetensors").exists()
