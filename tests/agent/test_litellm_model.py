"""The LiteLLM client over real HTTP: what streams, what fails, and how each failure is told."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from agent.asking import ask
from agent.litellm_model import LiteLLMModel
from agent.model import ContextTooLong, ModelRefused, ModelRetryable, Prices
from tests.servers.openai_server import Call, OpenAIServer, Reply
from tests.servers.provider import Tokens

MESSAGES = [{"role": "user", "content": "go"}]
TOOLS = [{"type": "function", "function": {"name": "Read", "parameters": {"type": "object", "properties": {}}}}]


async def question(server, name="openai/test", tools=TOOLS):
    """Ask once; return the answer and the pieces that streamed."""
    pieces = []
    answer = await LiteLLMModel(name, server.base_url).answer(MESSAGES, tools, pieces.append)
    return answer, pieces


async def persistent_question(server):
    """Ask as the loop does; return the answer and the retries."""
    retries = []
    model = LiteLLMModel("openai/test", server.base_url)
    answer = await ask(model, MESSAGES, TOOLS, lambda piece: None, lambda error, wait: retries.append((error, wait)))
    return answer, retries


async def test_text_and_reasoning_stream_and_the_answer_is_whole():
    with OpenAIServer([Reply(text="Fuse the norm with the residual.", reasoning="It is memory bound.")]) as server:
        answer, pieces = await question(server)
    words = {"role": "assistant", "content": "Fuse the norm with the residual."}
    assert answer.message == words | {"reasoning_content": "It is memory bound."}
    assert answer.reasoning == "It is memory bound."
    assert answer.finish_reason == "stop"
    assert answer.usage["completion_tokens"] == 10
    assert answer.cost_usd is None
    texts = [piece.text for piece in pieces if piece.kind == "text"]
    assert len(texts) > 2
    assert "".join(texts) == "Fuse the norm with the residual."
    assert "".join(piece.text for piece in pieces if piece.kind == "reasoning") == "It is memory bound."
    request = server.requests[0]
    assert (request["model"], request["messages"], request["tools"]) == ("test", MESSAGES, TOOLS)


@pytest.mark.parametrize("tokens", [Tokens(input=1000, output=50), None])
async def test_a_price_of_ones_own_is_what_an_answer_costs_also_where_nobody_counts(tokens):
    with OpenAIServer([Reply(text="".join(f"{n:05} " for n in range(495)), tokens=tokens)]) as server:
        model = LiteLLMModel("openai/test", server.base_url, prices=Prices(2.0, 10.0))
        assert await model.priced()
        answer = await model.answer([{"role": "user", "content": "y" * 2970}], TOOLS, lambda piece: None)
    assert bool(answer.usage) == bool(tokens)
    wanted = (1000 * 2 + 50 * 10) / 1e6 if tokens else (1000 * 2 + 1000 * 10) / 1e6
    assert answer.cost_usd == pytest.approx(wanted, rel=0.05)


async def test_a_price_is_known_of_a_listed_model_and_not_of_a_server_of_ones_own():
    assert await LiteLLMModel("anthropic/claude-sonnet-4-5").priced()
    assert not await LiteLLMModel("openai/test", "http://127.0.0.1:9/v1").priced()
    assert not await LiteLLMModel("anthropic/claude-none-there-is").priced()


async def test_parallel_calls_that_stream_interleaved_are_put_together_by_index():
    calls = [Call("Read", {"path": "a.py"}, "one"), Call("Read", '{"path": broken', "two")]
    with OpenAIServer([Reply(text="Look.", calls=calls)]) as server:
        answer, pieces = await question(server)
    sent = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in answer.message["tool_calls"]]
    assert sent == [("one", "Read", '{"path": "a.py"}'), ("two", "Read", '{"path": broken')]
    assert answer.finish_reason == "tool_calls"
    second = [piece for piece in pieces if piece.kind == "tool" and piece.call == 1]
    assert {piece.name for piece in second} == {"Read"}
    assert "".join(piece.text for piece in second) == '{"path": broken'


@pytest.mark.parametrize("name", ["openai/some/name", "some/name"])
async def test_a_server_of_ones_own_gets_the_name_without_the_providers_prefix(name):
    with OpenAIServer([Reply(text="hi")]) as server:
        await question(server, name)
    assert server.requests[0]["model"] == "some/name"


async def test_a_busy_server_is_asked_again_after_the_wait_it_names():
    busy = Reply(status=429, headers={"Retry-After": "1"}, error={"message": "slow down", "type": "rate_limit"})
    with OpenAIServer([busy, Reply(text="here")]) as server:
        answer, retries = await persistent_question(server)
    assert answer.message["content"] == "here"
    assert retries == [("openai/test answered 429: slow down.", 1.0)]
    assert server.times[1] - server.times[0] >= 1.0


async def test_an_answer_cut_in_the_middle_is_discarded_and_asked_for_anew():
    with OpenAIServer([Reply(text="half an answer that breaks off", drop_after=3), Reply(text="whole")]) as server:
        answer, retries = await persistent_question(server)
    assert answer.message["content"] == "whole"
    assert len(retries) == 1


async def test_a_fault_of_the_server_is_asked_again():
    with OpenAIServer([Reply(status=500), Reply(status=503), Reply(text="there")]) as server:
        answer, retries = await persistent_question(server)
    assert answer.message["content"] == "there"
    assert len(retries) == 2
    assert retries[1][1] > retries[0][1]


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (Reply(status=401, error={"message": "Incorrect API key"}), ModelRefused, "Incorrect API key"),
        (Reply(status=403, error={"message": "no access"}), ModelRefused, "API key"),
        (Reply(status=404, error={"message": "no model 'test'"}), ModelRefused, "no model 'test'"),
        (Reply(status=400, error={"message": "tools are not supported"}), ModelRefused, "tools are not supported"),
        (Reply(status=429, error={"message": "insufficient_quota"}), ModelRefused, "credit"),
        (Reply(status=529, error={"message": "overloaded"}), ModelRetryable, "overloaded"),
        (Reply(status=408), ModelRetryable, "408"),
        (
            Reply(
                status=400,
                error={"message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"},
            ),
            ContextTooLong,
            "8192",
        ),
        (Reply(status=400, error={"message": "prompt is too long: 9 > 8"}), ContextTooLong, "9 > 8"),
        (Reply(status=413, error={"message": "payload"}), ContextTooLong, "payload"),
    ],
)
async def test_each_refusal_is_told_as_what_it_is_in_the_providers_words(reply, kind, said):
    with OpenAIServer([reply, reply]) as server, pytest.raises(kind) as caught:
        await question(server)
    assert said in str(caught.value)
    assert "litellm." not in str(caught.value)
    again = (
        reply.status == 400 and kind is ModelRefused
    )  # without what is asked for learning, which may be what it refused
    assert len(server.requests) == 1 + again


async def test_a_wait_of_hours_is_a_refusal():
    busy = Reply(status=429, headers={"Retry-After": "7200"})
    with OpenAIServer([busy]) as server, pytest.raises(ModelRefused, match="7200 seconds"):
        await persistent_question(server)


async def test_a_retry_after_given_as_a_date_is_understood():
    busy = Reply(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    with OpenAIServer([busy]) as server, pytest.raises(ModelRetryable) as caught:
        await question(server)
    assert caught.value.wait_seconds == 0.0


async def test_a_server_that_is_down_is_worth_another_try():
    with OpenAIServer([]) as server:
        address = server.base_url
    with pytest.raises(ModelRetryable):
        await LiteLLMModel("openai/test", address).answer(MESSAGES, TOOLS, lambda piece: None)


async def test_a_server_that_stays_down_is_given_up_after_some_tries(monkeypatch):
    monkeypatch.setattr("agent.asking.ATTEMPTS", 2)
    with OpenAIServer([]) as server:
        pass
    with pytest.raises(ModelRefused, match=r"openai/test cannot be reached.*asked 2 times"):
        await persistent_question(server)


@pytest.mark.parametrize("name", ["no-such-provider-model", "anthropic/claude-test"])
async def test_an_unknown_name_and_a_missing_key_are_refusals(name, monkeypatch):
    for variable in [key for key in os.environ if key.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(variable)
    with pytest.raises(ModelRefused):
        await LiteLLMModel(name).answer(MESSAGES, [], lambda piece: None)


async def test_cancelling_in_the_middle_of_an_answer_ends_it_at_once():
    with OpenAIServer([Reply(text="word " * 400, pause=0.5)]) as server:
        began = asyncio.Event()
        model = LiteLLMModel("openai/test", server.base_url)
        asked = asyncio.create_task(model.answer(MESSAGES, TOOLS, lambda piece: began.set()))
        await began.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asked, 30)


QUIET = """
import asyncio, sys
from agent.litellm_model import LiteLLMModel
model = LiteLLMModel("openai/test", sys.argv[1])
print("at once" if "litellm.main" not in sys.modules else "after the import")
async def main():
    try:
        await model.answer([{"role": "user", "content": "go"}], [], lambda piece: None)
    except Exception as error:
        print(type(error).__name__)
asyncio.run(main())
"""


def test_the_client_is_made_at_once_and_nothing_but_ours_reaches_stdout():
    with OpenAIServer([Reply(status=500)]) as server:
        command = [sys.executable, "-c", QUIET, server.base_url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "at once\nModelRetryable\n"
