"""One GPU for policy and judge: sessions, verdicts and an update alternate, and the trajectories name the weights.

    pytest tests/gpu/test_trainer_cycle.py

A longer run, in which the reward rises::

    python -m tests.trainer.rollout.toy FOLDER --device cuda:0 --steps 8 --at-once 8 --minutes 4.8
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from agent.session import session_folders
from agent.store import read_events
from sandbox.errors import ExitCode
from tests.trainer.rollout import toy
from trainer.policy.model import load_policy
from trainer.policy.tiny import write_tiny_policy
from trainer.rollout.drawing import Sampling
from trainer.rollout.generation import Generator, Request
from trainer.rollout.sampling import sample

pytestmark = pytest.mark.gpu


@contextmanager
def turn(_):
    yield time.monotonic() + 0.1


@pytest.mark.timeout(300)
def test_a_step_of_the_cycle_on_the_gpu_that_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in toy.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    toy.prepare(tmp_path, "cuda:0", "quick", toy.BY_CORRECTNESS)
    assert toy.go_round(tmp_path, "cuda:0", "quick", steps=1, sessions=3, at_once=3) == ExitCode.OK
    (line,) = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert line["sessions"] == 3
    assert line["episodes"] >= 1
    assert line["mismatch_k3"] < 0.01
    turns = [
        stored.event
        for folder in session_folders(tmp_path / "run" / "rollouts")
        for stored in read_events(folder)
        if stored.event.type == "model_turn"
    ]
    assert turns
    assert {each.identity["version"] for each in turns} == {0}
    assert all(each.token_ids and len(each.token_ids) == len(each.logprobs) for each in turns)
    assert (tmp_path / "run" / "checkpoints" / "step-000001" / "policy" / "config.json").is_file()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_answers_on_the_gpu_have_the_log_probabilities_of_a_plain_pass(tmp_path: Path, dtype: torch.dtype) -> None:
    policy = load_policy(write_tiny_policy(tmp_path / "tiny", vocabulary=600), dtype=dtype, device="cuda:0")
    prompts = [[5, 6, 7, 8], [9, 10], [5, 6, 7, 11, 12, 13], [3] * 300]
    generator = Generator(policy, [], turn, batch=3, kept_tokens=1000)
    requests = [generator.submit(Request(prompt, Sampling(seed=1), 20)) for prompt in prompts]
    answers = [[(token.id, token.logprob) for token in request.tokens()] for request in requests]
    generator.close()
    answers += [list(zip(one.ids, one.logprobs, strict=True)) for one in sample(policy, prompts, limit=20, seed=2)]
    for prompt, answer in zip(prompts * 2, answers, strict=True):
        ids = torch.tensor([[*prompt, *(token for token, _ in answer)]], device="cuda:0")
        with torch.inference_mode(), policy.computing("policy"):
            logprobs = torch.log_softmax(policy.network(input_ids=ids).logits[0].float(), -1)
        plain = [float(logprobs[len(prompt) + place - 1, token]) for place, (token, _) in enumerate(answer)]
        close = 1e-3 if dtype == torch.float32 else 0.1
        assert [logprob for _, logprob in answer] == pytest.approx(plain, abs=close)
