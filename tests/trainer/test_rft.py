from dataclasses import replace

import pytest
import torch

from sandbox.errors import UsageError
from tests.trainer.made import episodes, learner_over, training_set
from trainer import rft
from trainer.__main__ import main
from trainer.policy.model import load_policy
from trainer.run import metrics
from trainer.run.options import part_of


def test_only_what_earned_something_is_imitated():
    made = episodes(8)
    assert [made[number].reward for number in rft.rewarded(made)] == [1.0, 2.0, 3.0] * 2


def test_nothing_to_imitate_is_said():
    failures = [replace(episode, reward=-1.0) for episode in episodes(3)]
    with pytest.raises(UsageError, match="None of 3 episodes earned more than 0"):
        rft.rewarded(failures)


def test_the_gradient_is_that_of_the_mean_log_likelihood_of_the_actions(model):
    """Beside plain transformers on one segment at a time."""
    made = episodes(3)
    learner = learner_over(model, trains=["policy"], warm_up=1, grad_clip=1e9)
    numbers = rft.update(learner, made)

    network = load_policy(model).network
    total = torch.zeros(())
    for segment in (segment for episode in made for segment in episode.segments):
        ids = torch.from_numpy(segment.ids).long()[None]
        logp = network(ids, use_cache=False).logits[0].log_softmax(-1)
        at = torch.from_numpy(segment.action).nonzero()[:, 0]
        total = total - logp[at - 1, ids[0, at]].sum()
    loss = total / sum(episode.actions for episode in made)
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in network.parameters() if p.grad is not None])
    assert numbers["nll"] == pytest.approx(loss.item(), rel=1e-5)
    assert numbers["actor_norm"] == pytest.approx(float(norm), rel=1e-4)


def test_a_run_makes_the_policy_likelier_to_do_what_it_imitates(model, tmp_path):
    data = training_set(tmp_path / "set", model, episodes(8))
    out = tmp_path / "run"
    arguments = [
        "--model",
        str(model),
        "--out",
        str(out),
        "--set",
        "actor_lr=0.01",
        "--set",
        "warm_up=1",
        "--steps",
        "6",
    ]
    assert main(["rft", str(data), *arguments, "--device", "cpu"]) == 0
    nll = [line["nll"] for line in metrics.read(out / "metrics.jsonl")]
    assert nll[-1] < nll[0] - 0.2
    load_policy(part_of(out, "policy"))
    begun = ["--model", str(out), "--out", str(tmp_path / "next"), "--device", "cpu"]
    assert main(["rft", str(data), *begun, "--steps", "1"]) == 0
    assert main(["rft", str(data), *arguments[:-1], "9", "--device", "cpu"]) == 0
    assert main(["rft", str(data), *begun, "--steps", "2"]) == 0, (
        "it goes on from where it began, though that run went on"
    )
