"""Many answers at once are those that each would be alone, with the log-probabilities of a plain pass."""

from __future__ import annotations

import pytest
import torch

from trainer.rollout.drawing import Sampling, draw, randomness
from trainer.rollout.sampling import sample

PROMPTS = [[5, 6, 7, 8], [9, 10], [11] * 7, [3, 4, 5]]


def plain(policy, prompt, ids, temperature=1.0):
    with torch.inference_mode():
        logits = policy.network(input_ids=torch.tensor([[*prompt, *ids]])).logits[0] / temperature
    logprobs = torch.log_softmax(logits, -1)
    return [float(logprobs[len(prompt) + place - 1, token]) for place, token in enumerate(ids)]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_answers_do_not_depend_on_the_batch_and_tell_their_own_log_probabilities(policy, temperature):
    together = sample(policy, PROMPTS, limit=12, temperature=temperature, seed=4)
    by_two = sample(policy, PROMPTS, limit=12, temperature=temperature, seed=4, batch=2)
    assert [answer.ids for answer in together] == [answer.ids for answer in by_two]
    for prompt, answer in zip(PROMPTS, together, strict=True):
        assert answer.logprobs == pytest.approx(plain(policy, prompt, answer.ids, temperature), abs=1e-4)


def test_an_answer_ends_with_a_stop_token_and_is_truncated_without(policy):
    free = sample(policy, PROMPTS, limit=12, seed=4, stop=frozenset())
    assert all(answer.truncated and len(answer.ids) == 12 for answer in free)
    stop = frozenset({free[0].ids[3], free[2].ids[6]})
    ended = sample(policy, PROMPTS, limit=12, seed=4, stop=stop)
    for before, after in zip(free, ended, strict=True):
        ends = [place for place, token in enumerate(before.ids) if token in stop]
        assert after.ids == before.ids[: ends[0] + 1 if ends else 12]
        assert after.truncated == (not ends)


def test_temperature_0_takes_the_likeliest_and_top_p_nothing_unlikely():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).repeat(400, 1)
    generators = [randomness(Sampling(seed=n), 0, logits.device) for n in range(400)]
    likeliest, logprobs = draw(logits, [Sampling(temperature=0.0)] * 400, generators)
    assert set(likeliest) == {0}
    assert logprobs[0] == pytest.approx(float(torch.log_softmax(logits[0], -1)[0]), abs=1e-6)
    drawn, logprobs = draw(logits, [Sampling(top_p=0.8)] * 400, generators)
    assert set(drawn) == {0, 1}
    kept = torch.log_softmax(logits[0, :2], -1)
    assert logprobs[0] == pytest.approx(float(kept[drawn[0]]), abs=1e-6)
    share = drawn.count(0) / 400
    assert share == pytest.approx(float(kept[0].exp()), abs=0.08)
