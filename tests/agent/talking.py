"""A conversation of two answers with a model over HTTP, in whichever dialect, for the tests of dialects."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.litellm_model import LiteLLMModel
from agent.model import DEFAULT_SAMPLING, Answer, Piece, Sampling
from agent.tool_calls import understand
from tests.servers.dialects.anthropic import Anthropic
from tests.servers.dialects.bedrock import Bedrock
from tests.servers.dialects.gemini import Gemini
from tests.servers.dialects.ollama import Ollama
from tests.servers.provider import Call, Dialect, ProviderServer, Reply, Scripted, Tokens

NAMES = {"Read": None, "List": None}
TOOLS = [
    {"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {}}}} for n in NAMES
]
START = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}]
LOOK = Reply(
    text="I look at both files.",
    reasoning="It is memory bound.",
    signature="SIGNED",
    calls=[Call("Read", {"path": "a.py"}, signature="THOUGHT"), Call("List", {})],
    tokens=Tokens(input=1000, cached=600, written=200, output=50, reasoning=20),
)
CLAUDE = (Anthropic(), "anthropic/claude-sonnet-4-5")
GEMINI = (Gemini(), "gemini/gemini-2.5-pro")
OLLAMA = (Ollama(), "ollama/qwen3")
BEDROCK = (Bedrock(), "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0")


@dataclass
class Talk:
    """A conversation of two answers: what was answered, what streamed of the first, and what came to the server."""

    answers: list[Answer]
    pieces: list[Piece]
    messages: list[dict[str, Any]]
    server: ProviderServer

    @property
    def sent(self) -> dict[str, Any]:
        """The second request, which holds the first answer and the results of its calls."""
        return self.server.requests[-1]


async def talk(
    dialect: Dialect,
    name: str,
    first: Scripted = LOOK,
    sampling: Sampling = DEFAULT_SAMPLING,
    provider_at: Callable[[str], None] | None = None,
) -> Talk:
    """Let a model answer twice, with results for the calls of its first answer between.

    The server is given as one's own, or where the provider's own is looked for, which ``provider_at`` is told.
    """
    messages, pieces, answers = list(START), [], []
    with ProviderServer(dialect, [first, Reply(text="Done.")]) as server:
        if provider_at:
            provider_at(f"{server.base_url}/v1")
        model = LiteLLMModel(name, "" if provider_at else server.base_url, sampling)
        for turn in (1, 2):
            heard = pieces.append if turn == 1 else lambda piece: None
            answers.append(await model.answer(messages, TOOLS, heard))
            message, calls = understand(answers[-1].message, turn, NAMES)
            messages += [message, *({"role": "tool", "tool_call_id": c.id, "content": f"of {c.name}"} for c in calls)]
    return Talk(answers, pieces, messages, server)


def calls_of(answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and parsed arguments of each call."""
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in answer.message["tool_calls"]]


def heard(pieces: list[Piece], kind: str, call: int | None = None) -> str:
    """Return what streamed of a kind, joined."""
    return "".join(piece.text for piece in pieces if piece.kind == kind and piece.call == call)
