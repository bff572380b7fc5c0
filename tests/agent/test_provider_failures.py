"""How providers fail, each in its own dialect and words, and what the developer is told."""

from __future__ import annotations

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agent.litellm_model import LiteLLMModel
from agent.model import ContextTooLong, ModelRefused, ModelRetryable
from tests.agent.talking import BEDROCK, CLAUDE, GEMINI, OLLAMA, START, TOOLS
from tests.servers.dialects.openai import OpenAI
from tests.servers.dialects.vllm import VLLM
from tests.servers.provider import ProviderServer, Reply

pytestmark = pytest.mark.usefixtures("amazon_account")

FAILURES = {
    "anthropic": (
        CLAUDE,
        [
            (401, "invalid x-api-key", ModelRefused, "API key"),
            (403, "no permission", ModelRefused, "API key"),
            (404, "model: claude-none", ModelRefused, "'model'"),
            (429, "over your organization's rate limit", ModelRetryable, "429"),
            (400, "Your credit balance is too low", ModelRefused, "credit"),
            (500, "Internal server error", ModelRetryable, "500"),
            (529, "Overloaded", ModelRetryable, "529"),
            (400, "prompt is too long: 208310 tokens > 200000 maximum", ContextTooLong, "208310"),
        ],
    ),
    "gemini": (
        GEMINI,
        [
            (400, "API key not valid. Please pass a valid API key.", ModelRefused, "in the environment"),
            (403, "Method doesn't allow unregistered callers", ModelRefused, "in the environment"),
            (404, "models/gemini-9 is not found", ModelRefused, "'model'"),
            (429, "You exceeded your current quota. Please retry in 34.5s.", ModelRetryable, "429"),
            (429, "You exceeded your current quota, check your billing", ModelRefused, "credit"),
            (500, "An internal error has occurred.", ModelRetryable, "500"),
            (503, "The model is overloaded.", ModelRetryable, "503"),
            (400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", ContextTooLong, "(9)"),
        ],
    ),
    "ollama": (
        OLLAMA,
        [
            (404, "model 'qwen3' not found", ModelRefused, "'model'"),
            (400, "qwen3 does not support tools", ModelRefused, "'model'"),
            (503, "server busy, please try again", ModelRetryable, "503"),
            (500, "model requires more system memory than is available", ModelRetryable, "memory"),
        ],
    ),
    "bedrock": (
        BEDROCK,
        [
            (403, "The security token included in the request is invalid.", ModelRefused, "403"),
            (429, "Too many tokens, please wait before trying again.", ModelRetryable, "429"),
            (400, "Input is too long for requested model.", ContextTooLong, "too long"),
            (503, "Bedrock is unable to process your request.", ModelRetryable, "503"),
        ],
    ),
    "openai": (
        (OpenAI(), "deepseek/deepseek-chat"),
        [
            (402, "Insufficient Balance", ModelRefused, "credit"),
            (400, "the request exceeds the available context size", ContextTooLong, "context size"),
            (503, "no healthy upstream", ModelRetryable, "503"),
        ],
    ),
}
CASES = [(*who, *case) for who, cases in FAILURES.values() for case in cases]


@pytest.mark.parametrize(("dialect", "name", "status", "said", "kind", "hint"), CASES)
async def test_each_failure_is_told_in_the_providers_words(dialect, name, status, said, kind, hint):
    with (
        ProviderServer(dialect, [Reply(status=status, error={"message": said})]) as server,
        pytest.raises(kind) as caught,
    ):
        await LiteLLMModel(name, server.base_url).answer(START, TOOLS, lambda piece: None)
    told = str(caught.value)
    assert said.rstrip(".") in told
    assert hint in told
    assert not any(mark in told for mark in ("litellm", "Exception", "{", "b'"))


@pytest.mark.parametrize(("dialect", "name"), [CLAUDE, GEMINI, OLLAMA, BEDROCK])
@pytest.mark.parametrize(("headers", "wait"), [({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500"}, 1.5)])
async def test_every_provider_can_say_how_long_to_wait(dialect, name, headers, wait):
    busy = Reply(status=429, headers=headers, error={"message": "slow down"})
    with ProviderServer(dialect, [busy]) as server, pytest.raises(ModelRetryable) as caught:
        await LiteLLMModel(name, server.base_url).answer(START, TOOLS, lambda piece: None)
    assert caught.value.wait_seconds == wait


async def test_google_says_in_words_how_long_to_wait():
    busy = Reply(status=429, error={"message": "Quota exceeded. Please retry in 34.5s."})
    with ProviderServer(GEMINI[0], [busy]) as server, pytest.raises(ModelRetryable) as caught:
        await LiteLLMModel(GEMINI[1], server.base_url).answer(START, TOOLS, lambda piece: None)
    assert caught.value.wait_seconds == 34.5


BROKEN = Reply(text="an answer that does not come to its end", error={"message": "The engine died."})


@pytest.mark.parametrize(("dialect", "name"), [CLAUDE, GEMINI, OLLAMA, BEDROCK, (VLLM(), "hosted_vllm/tiny")])
@pytest.mark.parametrize(
    ("how", "told"), [({"fail_after": 3}, "The engine died"), ({"drop_after": 3}, "was lost in the middle")]
)
async def test_an_answer_that_breaks_off_is_no_answer(dialect, name, how, told):
    with ProviderServer(dialect, [replace(BROKEN, **how)]) as server, pytest.raises(ModelRetryable, match=told):
        await LiteLLMModel(name, server.base_url).answer(START, TOOLS, lambda piece: None)


@pytest.mark.parametrize(("dialect", "name"), [CLAUDE, OLLAMA, (OpenAI(), "tiny")])
async def test_an_answer_that_ends_without_saying_why_is_no_answer(dialect, name):
    unfinished = replace(BROKEN, finish="none")
    with ProviderServer(dialect, [unfinished]) as server, pytest.raises(ModelRetryable, match="broke its answer off"):
        await LiteLLMModel(name, server.base_url).answer(START, TOOLS, lambda piece: None)


class Website(BaseHTTPRequestHandler):
    """Answers everything with a page, as what is no API does."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        page = b"<html>Please log in.</html>"
        self.send_response(200)
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("name", [CLAUDE[1], GEMINI[1], OLLAMA[1], "hosted_vllm/tiny", "tiny"])
async def test_a_page_in_place_of_an_answer_is_no_answer(name):
    with ThreadingHTTPServer(("127.0.0.1", 0), Website) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ModelRetryable, match=r"nothing that is an answer|broke its answer off"):
            await LiteLLMModel(name, f"http://127.0.0.1:{server.server_port}/v1").answer(
                START, TOOLS, lambda piece: None
            )
        server.shutdown()


async def test_a_provider_that_falls_silent_is_given_up():
    with (
        ProviderServer(CLAUDE[0], [replace(BROKEN, pause=5)]) as server,
        pytest.raises(ModelRetryable, match=r"sent nothing for 0\.5 seconds"),
    ):
        await LiteLLMModel(CLAUDE[1], server.base_url, silence_seconds=0.5).answer(START, TOOLS, lambda piece: None)


async def test_a_model_of_ones_own_without_an_address_is_asked_nowhere(monkeypatch):
    monkeypatch.delenv("HOSTED_VLLM_API_BASE", raising=False)
    with pytest.raises(ModelRefused, match="--api-base"):
        await LiteLLMModel("hosted_vllm/tiny").answer(START, TOOLS, lambda piece: None)
