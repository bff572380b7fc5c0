"""The server through real HTTP, as the agent's own client and any other asks it."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from agent.litellm_model import LiteLLMModel
from agent.model import ContextTooLong, Sampling
from agent.server_card import read_card
from sandbox.errors import EnvironmentFault
from trainer.rollout.served import ServerSettings, Weights
from trainer.rollout.server import PolicyServer

ASKED = [{"role": "user", "content": "Begin."}]


@contextmanager
def turn(_):
    yield time.monotonic() + 0.1


@pytest.fixture(scope="module")
def server(policy):
    with PolicyServer(policy, Weights("w@run.3", 3), turn, ServerSettings("tiny", context=400)) as running:
        yield running


def post(server, path="/chat/completions", **body):
    request = urllib.request.Request(f"{server.base_url}{path}", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def seed(server):
    """The first with which the random policy writes thirty tokens of text, and calls no tool."""
    for number in range(100):
        choice = json.loads(post(server, messages=ASKED, max_tokens=30, seed=number)[1])["choices"][0]
        if choice["finish_reason"] == "length" and "tool_calls" not in choice["message"]:
            return number
    raise AssertionError("every answer calls a tool, or ends")


def test_the_card_names_weights_tokenizer_and_context(policy, server):
    card = read_card(server.base_url, "none", "tiny")
    assert card.context_tokens == 400
    assert card.identity["weights"] == "w@run.3"
    assert card.identity["version"] == 3
    assert card.identity["tokenizer_sha256"] == policy.hashes.tokenizer_sha256
    assert card.identity["logprobs"] == "processed"


def test_a_whole_answer_and_a_stream_say_the_same(policy, server, seed):
    body = {"messages": ASKED, "max_tokens": 30, "seed": seed, "logprobs": True, "return_token_ids": True}
    status, whole = post(server, **body)
    assert status == 200
    whole = json.loads(whole)
    choice = whole["choices"][0]
    assert choice["message"]["content"].strip()
    assert choice["finish_reason"] == "length"
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == whole["usage"]["completion_tokens"] == 30
    assert policy.tokenizer.decode(whole["prompt_token_ids"]).endswith("<|im_start|>assistant\n")
    _, stream = post(server, **body, stream=True, stream_options={"include_usage": True})
    *lines, done = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    chunks = [json.loads(line) for line in lines]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert done == "[DONE]"
    assert "".join(each["delta"].get("content", "") for each in choices) == choice["message"]["content"]
    assert [token for each in choices for token in each["token_ids"]] == choice["token_ids"]
    assert choices[-1]["finish_reason"] == "length"
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert chunks[0]["warpsmith"]["weights"] == "w@run.3"
    assert chunks[-1]["usage"]["completion_tokens"] == 30


def test_a_stop_string_ends_an_answer(server, seed):
    _, free = post(server, messages=ASKED, max_tokens=30, seed=seed)
    content = json.loads(free)["choices"][0]["message"]["content"]
    stop = content.strip()[4:7]
    _, stopped = post(server, messages=ASKED, max_tokens=30, seed=seed, stop=stop)
    choice = json.loads(stopped)["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == content[: content.index(stop)].rstrip()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"messages": ASKED, "n": 2}, 400, "n must be 1"),
        ({"messages": "Begin."}, 400, "no request for a chat completion"),
        ({"messages": ASKED, "temperature": -1}, 400, "temperature must be at least 0"),
        ({"messages": [{"role": "user", "content": "again " * 400}]}, 400, "maximum context length is 400 tokens"),
    ],
)
def test_what_cannot_be_answered_is_told(server, body, status, said):
    answered, text = post(server, **body)
    assert answered == status
    assert said in json.loads(text)["error"]["message"]


def test_another_path_is_not_found(server):
    assert post(server, "/completions")[0] == 404


def test_a_taken_port_is_told(policy, server):
    port = int(server.base_url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(EnvironmentFault, match="cannot be served"):
        PolicyServer(policy, Weights("w"), turn, ServerSettings("tiny", port=port))


def test_our_client_gets_ids_log_probabilities_and_who_answered(policy, server, seed):
    model = LiteLLMModel("openai/tiny", server.base_url, Sampling(seed=seed, max_output_tokens=30))
    model.warm.join()
    pieces = []
    answer = asyncio.run(model.answer(ASKED, [], pieces.append))
    assert answer.tokens_note == ""
    assert len(answer.token_ids) == len(answer.logprobs) == 30
    assert "".join(piece.text for piece in pieces) == answer.message["content"]
    assert answer.identity["weights"] == "w@run.3"
    assert answer.identity["version"] == 3
    assert answer.prompt_token_ids == server.conversations.prompt(ASKED, [])
    assert answer.usage["output_tokens"] == 30
    with pytest.raises(ContextTooLong):
        asyncio.run(model.answer([{"role": "user", "content": "again " * 400}], [], pieces.append))
