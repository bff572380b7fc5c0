"""Answers that are written together, one joining while another is under way, are those that each would be alone."""

from __future__ import annotations

import functools
import threading
import time
from contextlib import contextmanager

import pytest
import torch

from sandbox.errors import EnvironmentFault, InternalError
from tests.trainer.rollout.test_sampling import plain
from trainer.rollout.drawing import Sampling
from trainer.rollout.generation import Generator, OutOfMemory, Request

PROMPTS = [[5, 6, 7, 8], [9, 10], [5, 6, 7, 11, 12, 13], [3, 4, 5]]


@contextmanager
def turn(_):
    yield time.monotonic() + 0.02


@pytest.fixture
def generator(policy):
    made = Generator(policy, [], turn, batch=3, kept_tokens=64)
    yield made
    made.close()


def ask(generator, prompt, most=10, seed=1):
    return generator.submit(Request(prompt, Sampling(seed=seed), most))


def test_answers_of_a_changing_batch_have_the_log_probabilities_of_a_plain_pass(policy, generator):
    requests = [ask(generator, prompt, most=5 + 3 * place) for place, prompt in enumerate(PROMPTS)]
    for place, request in enumerate(requests):
        tokens = list(request.tokens())
        assert len(tokens) == 5 + 3 * place
        expected = plain(policy, request.prompt, [token.id for token in tokens])
        assert [token.logprob for token in tokens] == pytest.approx(expected, abs=1e-4)


def test_what_was_read_is_not_read_again_and_changes_nothing(policy, generator):
    first = ask(generator, PROMPTS[2])
    answer = [token.id for token in first.tokens()]
    goes_on = [*PROMPTS[2], *answer, 20, 21]
    again = ask(generator, goes_on)
    tokens = list(again.tokens())
    assert (first.cached, again.cached) == (0, len(goes_on) - 3)
    assert [token.logprob for token in tokens] == pytest.approx(
        plain(policy, goes_on, [token.id for token in tokens]), abs=1e-4
    )
    branch = ask(generator, [5, 6, 7, 30])
    list(branch.tokens())
    assert branch.cached == 3


def test_new_weights_forget_what_was_read(policy, generator):
    list(ask(generator, PROMPTS[0]).tokens())
    with generator.new_weights():
        pass
    again = ask(generator, PROMPTS[0])
    list(again.tokens())
    assert again.cached == 0


def test_one_that_nobody_wants_any_more_ends(generator):
    request = ask(generator, PROMPTS[0], most=100_000)
    next(request.tokens())
    request.cancelled = True
    assert len(list(request.tokens())) < 100_000


def test_closing_tells_those_that_wait(policy):
    generator = Generator(policy, [], turn, batch=1, kept_tokens=0)
    requests = [ask(generator, prompt, most=100_000) for prompt in PROMPTS]
    next(requests[0].tokens())
    generator.close()
    for request in requests:
        with pytest.raises(EnvironmentFault, match="closing"):
            list(request.tokens())


def fails(policy, monkeypatch, error, when):
    """Let the network fail where the batch is so large."""
    forward = policy.network.forward

    @functools.wraps(forward)
    def failing(*args, **options):
        if when(len(options["input_ids"])):
            raise error
        return forward(*args, **options)

    monkeypatch.setattr(policy.network, "forward", failing)


def test_out_of_memory_is_told_and_fewer_are_written_at_once(policy, monkeypatch):
    fails(policy, monkeypatch, torch.OutOfMemoryError("CUDA out of memory"), lambda rows: rows > 1)
    hold = threading.Lock()

    @contextmanager
    def held(_):
        with hold:
            yield time.monotonic() + 10

    generator = Generator(policy, [], held, batch=4, kept_tokens=0)
    with hold:
        requests = [ask(generator, prompt) for prompt in PROMPTS]
        time.sleep(0.2)
    with pytest.raises(OutOfMemory, match="fewer are written at once"):
        list(requests[0].tokens())
    for _ in range(2):
        answers = []
        for request in [ask(generator, prompt) for prompt in PROMPTS]:
            try:
                answers.append(len(list(request.tokens())))
            except OutOfMemory:
                answers.append(0)
    generator.close()
    assert answers == [10] * 4


def test_an_error_of_the_model_reaches_whoever_asked_and_the_next_is_answered(policy, monkeypatch):
    generator = Generator(policy, [], turn, batch=4, kept_tokens=0)
    with monkeypatch.context() as patch:
        fails(policy, patch, RuntimeError("device-side assert"), lambda _: True)
        with pytest.raises(InternalError, match="device-side assert"):
            list(ask(generator, PROMPTS[0]).tokens())
    assert len(list(ask(generator, PROMPTS[0]).tokens())) == 10
    generator.close()
