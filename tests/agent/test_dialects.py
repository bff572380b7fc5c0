"""Every dialect that providers speak, over real HTTP: one conversation with tools, what is understood and what goes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from agent import events as ev
from agent.litellm_model import LiteLLMModel
from agent.model import Sampling
from agent.tokens import whole_prompts
from tests.agent.talking import BEDROCK, CLAUDE, GEMINI, LOOK, OLLAMA, START, TOOLS, Talk, calls_of, heard, talk
from tests.servers.dialects.openai import OpenAI, Quirks
from tests.servers.dialects.responses import Responses
from tests.servers.dialects.vllm import MODEL_LENGTH, VLLM, prompt_ids
from tests.servers.provider import ProviderServer, Reply

pytestmark = pytest.mark.usefixtures("amazon_account")
CALLS = [("Read", {"path": "a.py"}), ("List", {})]
SETTINGS = Sampling(temperature=0.5, top_p=0.9, seed=5, max_output_tokens=3000)

HIDDEN = Quirks(reasoning_key="", refuses=("temperature", "top_p", "max_tokens", "logprobs", "return_token_ids"))


def assert_understood(said: Talk, *, reasoning: str = "It is memory bound.") -> None:
    """The first answer is whole, streamed in pieces, its calls have ids of their own, and the second ends the talk."""
    first, second = said.answers
    assert first.message["content"] == heard(said.pieces, "text") == "I look at both files."
    assert first.reasoning == heard(said.pieces, "reasoning") == reasoning
    assert calls_of(first) == CALLS
    assert [json.loads(heard(said.pieces, "tool", number)) for number in (0, 1)] == [{"path": "a.py"}, {}]
    assert {p.name for p in said.pieces if p.call == 1} == {"List"}
    assert first.finish_reason == "tool_calls"
    ids = [call["id"] for call in said.messages[2]["tool_calls"]]
    assert len({*ids, ""}) == 3
    assert second.message.items() >= {"role": "assistant", "content": "Done."}.items()
    assert "tool_calls" not in second.message
    assert second.finish_reason == "stop"


USAGE = {"input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050}


async def test_anthropic_gets_signed_thinking_back_and_what_is_cached_is_counted_and_priced():
    said = await talk(*CLAUDE, sampling=SETTINGS)
    assert_understood(said)
    first = said.answers[0]
    assert first.usage.items() >= {**USAGE, "cached_input_tokens": 600, "cache_write_tokens": 200}.items()
    assert first.cost_usd == pytest.approx((200 * 3 + 600 * 0.3 + 200 * 3.75 + 50 * 15) / 1e6)
    assert first.sampling.items() >= {"temperature": 0.5, "max_output_tokens": 3000}.items()
    assert "seed" not in first.sampling  # it takes none
    answer, results = said.sent["messages"][1:]
    assert answer["content"][0] == {"type": "thinking", "thinking": "It is memory bound.", "signature": "SIGNED"}
    uses = [(block["id"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]
    assert uses == [("toolu_0", {"path": "a.py"}), ("toolu_1", {})]
    assert [(b["tool_use_id"], b["content"]) for b in results["content"]] == [
        ("toolu_0", "of Read"),
        ("toolu_1", "of List"),
    ]
    assert said.server.paths[0] == "/v1/messages"
    assert said.server.headers[0]["x-api-key"] == "none"


async def test_what_anthropic_may_cache_is_marked_on_the_wire_and_never_in_the_conversation():
    said = await talk(*CLAUDE)
    first, second = said.server.requests
    assert first["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" in first["messages"][0]["content"][0]
    assert "cache_control" in second["messages"][0]["content"][0]  # the newest of the request before
    marks = ["cache_control" in block for block in second["messages"][2]["content"]]
    assert marks == [False, True]
    assert "cache_control" not in json.dumps(said.messages)
    assert said.messages[:2] == START


async def test_a_thinking_claude_gets_no_temperature():
    said = await talk(*CLAUDE, sampling=replace(SETTINGS, reasoning_effort="low"))
    assert said.answers[0].sampling.keys() == {"max_output_tokens", "reasoning"}
    assert said.sent["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    ("dialect", "name", "path", "whole"),
    [
        (*CLAUDE, "/v1", "/v1/messages"),
        (*OLLAMA, "/v1/", "/api/chat"),
        (*GEMINI, "/v1beta", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        (OpenAI(), "tiny", "/", "/v1/chat/completions"),
        (OpenAI(), "openai/tiny", "/else/v1", "/else/v1/chat/completions"),
    ],
)
async def test_an_address_may_be_given_with_and_without_the_version(dialect, name, path, whole):
    with ProviderServer(dialect, [Reply(text="hi")]) as server:
        await LiteLLMModel(name, server.base_url + path).answer(START, TOOLS, lambda piece: None)
    assert server.paths == [whole]


async def test_hidden_thinking_goes_back_as_it_came():
    said = await talk(*CLAUDE, replace(LOOK, extra={"redacted": "SEALED"}))
    kinds = [block["type"] for block in said.sent["messages"][1]["content"]]
    assert kinds == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    assert said.sent["messages"][1]["content"][1]["data"] == "SEALED"


async def test_the_same_model_at_amazon_gets_the_same_in_its_own_form():
    said = await talk(*BEDROCK, sampling=SETTINGS)
    assert_understood(said)
    first = said.answers[0]
    assert first.usage.items() >= {**USAGE, "cached_input_tokens": 600, "cache_write_tokens": 200}.items()
    assert first.sampling.items() >= {"temperature": 0.5, "max_output_tokens": 3000}.items()
    signed = {"reasoningText": {"text": "It is memory bound.", "signature": "SIGNED"}}
    assert said.sent["messages"][1]["content"][0] == {"reasoningContent": signed}
    points = [["cachePoint" in block for block in message["content"]] for message in said.sent["messages"]]
    assert points == [[False, True], [False] * 4, [False, False, True]]
    assert "cachePoint" in said.sent["system"][1]


async def test_gemini_gets_its_thought_signatures_back_and_counts_thoughts_as_output():
    said = await talk(*GEMINI, sampling=SETTINGS)
    assert_understood(said)
    first = said.answers[0]
    assert first.usage.items() >= {**USAGE, "cached_input_tokens": 600, "reasoning_tokens": 20}.items()
    assert first.sampling == {"temperature": 0.5, "top_p": 0.9, "seed": 5, "max_output_tokens": 3000}
    assert first.cost_usd is not None
    assert "THOUGHT" not in said.messages[2]["tool_calls"][0]["id"]
    _, model, user = said.sent["contents"]
    used = [part for part in model["parts"] if "function_call" in part]
    assert used[0] == {"function_call": {"name": "Read", "args": {"path": "a.py"}}, "thoughtSignature": "THOUGHT"}
    assert "thoughtSignature" not in used[1]
    assert [part["function_response"]["name"] for part in user["parts"]] == ["Read", "List"]
    assert said.server.paths[0].startswith("/v1beta/models/gemini-2.5-pro:streamGenerateContent")
    assert said.sent["system_instruction"] == {"parts": [{"text": "Be brief."}]}


async def test_calls_without_ids_from_ollama_stay_apart_and_it_is_told_how_much_to_read():
    said = await talk(*OLLAMA, sampling=SETTINGS)
    assert_understood(said)
    assert said.answers[0].usage.items() >= USAGE.items()
    assert said.sent["options"] == {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 5,
        "num_predict": 3000,
        "num_ctx": 131_072,
    }
    answer, *results = said.sent["messages"][2:]
    assert answer["thinking"] == "It is memory bound."
    assert [call["function"]["arguments"] for call in answer["tool_calls"]] == [{"path": "a.py"}, {}]
    assert [(result["role"], result["content"]) for result in results] == [("tool", "of Read"), ("tool", "of List")]


async def test_a_reasoning_model_of_openai_gets_no_setting_that_it_refuses():
    said = await talk(OpenAI(HIDDEN), "openai/o3", sampling=SETTINGS)
    assert_understood(said, reasoning="")
    first = said.answers[0]
    assert first.usage.items() >= {**USAGE, "cached_input_tokens": 600, "reasoning_tokens": 20}.items()
    assert first.sampling == {"seed": 5, "max_output_tokens": 3000}
    assert said.sent["max_completion_tokens"] == 3000
    asked = ["return_token_ids" in request for request in said.server.requests]
    assert asked == [True, False, False]  # refused once, never asked again


@pytest.fixture
def openai_at(monkeypatch) -> Callable[[str], None]:
    """Let OpenAI be at another address."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    return lambda address: monkeypatch.setenv("OPENAI_API_BASE", address)


@pytest.mark.parametrize("name", ["gpt-5.4", "openai/gpt-5-codex"])
async def test_the_newest_models_of_openai_get_their_sealed_reasoning_back(name, openai_at):
    said = await talk(Responses(), name, sampling=replace(SETTINGS, reasoning_effort="high"), provider_at=openai_at)
    assert_understood(said)
    first = said.answers[0]
    assert first.usage.items() >= {**USAGE, "cached_input_tokens": 600, "reasoning_tokens": 20}.items()
    assert first.sampling == {"max_output_tokens": 3000, "reasoning": {"effort": "high"}}
    assert first.cost_usd > 0
    kinds = [item["type"] for item in said.sent["input"]]
    assert kinds[2:] == ["reasoning", "message", *["function_call"] * 2, *["function_call_output"] * 2]
    assert said.sent["input"][2]["encrypted_content"] == "SIGNED"
    assert (said.sent["store"], said.sent["include"]) == (False, ["reasoning.encrypted_content"])
    keys = {request["prompt_cache_key"] for request in said.server.requests}
    assert len(keys) == 1  # the requests of one conversation find each other's cache


async def test_what_is_asked_of_openai_itself_holds_nothing_for_learning(openai_at):
    said = await talk(OpenAI(HIDDEN), "gpt-5", provider_at=openai_at)
    assert_understood(said, reasoning="")
    assert len(said.server.requests) == 2


QUIRKS = {
    "ids missing": Quirks(ids="missing", comments=True, empty_choices=True),
    "ids repeated": Quirks(ids="same"),
    "whole calls of one index, finished as if there were none": Quirks(whole_calls=True, finish="stop"),
    "whole calls of one index and id": Quirks(whole_calls=True, ids="same", object_arguments=True),
    "whole calls without ids": Quirks(whole_calls=True, ids="missing"),
    "letter by letter, names and ids again and again": Quirks(letters=True, reasoning_key="reasoning"),
    "an unknown finish reason": Quirks(finish="eos"),
}


@pytest.mark.parametrize("quirks", QUIRKS.values(), ids=QUIRKS.keys())
async def test_what_other_servers_make_of_the_protocol_is_understood(quirks):
    said = await talk(OpenAI(quirks), "tiny")
    assert_understood(said)
    answer, *results = said.sent["messages"][2:]
    assert [result["tool_call_id"] for result in results] == [call["id"] for call in answer["tool_calls"]]
    assert answer["reasoning_content"] == "It is memory bound."


async def test_reasoning_goes_back_to_deepseek():
    said = await talk(OpenAI(), "deepseek/deepseek-reasoner")
    assert_understood(said)
    assert said.sent["messages"][2]["reasoning_content"] == "It is memory bound."


async def test_a_conversation_goes_on_with_another_provider():
    claude, gemini = await talk(*CLAUDE), await talk(*GEMINI)
    for messages in (claude.messages, gemini.messages):
        with ProviderServer(OpenAI(), [Reply(text="here")]) as server:
            await LiteLLMModel("groq/tiny", server.base_url).answer(messages, TOOLS, lambda piece: None)
        answer = server.requests[0]["messages"][2]
        assert answer.keys() == {"role", "content", "tool_calls"}
        assert answer["tool_calls"][0].keys() == {"id", "type", "function"}
    assert "thinking_blocks" in claude.messages[2]


WEIGHTS = {"weights": "step-7", "tokenizer_sha256": "a" * 64, "logprobs": "processed"}


async def test_vllm_gives_tokens_that_a_trainer_can_use_and_says_which_weights_it_has():
    said = await talk(VLLM(told=WEIGHTS), "hosted_vllm/tiny")
    assert_understood(said)
    first = said.answers[0]
    assert len(first.token_ids) == len(first.logprobs) == first.usage["output_tokens"]
    assert "".join(map(chr, first.token_ids)).startswith("It is memory bound.I look at both files.")
    assert first.tokens_note == ""
    assert first.identity.items() >= {**WEIGHTS, "engine": "vllm"}.items()
    assert said.answers[1].prompt_token_ids == prompt_ids(said.sent)


async def test_the_tokens_of_a_prompt_are_stored_once_and_put_together_again():
    messages, turns = list(START), []
    with ProviderServer(VLLM(), [LOOK, Reply(text="More."), Reply(text="Done.")]) as server:
        for restarted in (False, False, True):
            if not turns or restarted:
                model = LiteLLMModel("hosted_vllm/tiny", server.base_url)
                for turn in turns:
                    model.observe(turn)
            answer = await model.answer(messages, TOOLS, lambda piece: None)
            told = {key: getattr(answer, key) for key in ("prompt_token_ids", "prompt_tokens_kept", "token_ids")}
            turns.append(
                ev.ModelTurn(turn=1, message={}, prompt_sha256="", finish_reason="", model="", seconds=0, **told)
            )
            model.observe(turns[-1])
            messages.append({"role": "user", "content": "on"})
    assert [prompt for _, prompt in whole_prompts(turns)] == [prompt_ids(request) for request in server.requests]
    added = prompt_ids({"messages": [messages[-2]]})
    assert [turn.prompt_token_ids for turn in turns[1:]] == [added, added]
    assert turns[2].prompt_tokens_kept > turns[1].prompt_tokens_kept > 0


async def test_a_server_that_serves_a_length_says_how_long_a_conversation_may_be():
    with ProviderServer(VLLM(), [Reply(text="hi")]) as server:
        model = LiteLLMModel("hosted_vllm/tiny", server.base_url)
        await model.answer(START, [], lambda piece: None)
        model.warm.join(10)
    assert model.context_tokens == MODEL_LENGTH


async def test_tokens_that_do_not_fit_what_was_counted_are_noted_and_not_kept():
    said = await talk(VLLM(), "hosted_vllm/tiny", replace(LOOK, extra={"token_ids": [7]}))
    first = said.answers[0]
    assert (first.token_ids, first.logprobs) == (None, None)
    assert "token ids came, and the server counted" in first.tokens_note


async def test_a_server_that_counts_nothing_has_no_usage():
    said = await talk(OpenAI(), "tiny", replace(LOOK, tokens=None))
    assert said.answers[0].usage == {}


@pytest.mark.parametrize(
    ("dialect", "name", "word", "finish"),
    [
        (*CLAUDE, "max_tokens", "length"),
        (*CLAUDE, "refusal", "content_filter"),
        (*GEMINI, "MAX_TOKENS", "length"),
        (*GEMINI, "SAFETY", "content_filter"),
        (*OLLAMA, "length", "length"),
        (Responses(), "openai/responses/gpt-5", "max_output_tokens", "length"),
        (OpenAI(), "tiny", "length", "length"),
        (OpenAI(), "tiny", "content_filter", "content_filter"),
    ],
)
async def test_why_an_answer_ended_is_told_in_one_vocabulary(dialect, name, word, finish):
    said = await talk(dialect, name, Reply(text="I stop", finish=word))
    assert said.answers[0].finish_reason == finish
