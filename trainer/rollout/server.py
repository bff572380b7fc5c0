"""A policy as an OpenAI-compatible server: chat completions with tools, streamed or whole, with token ids and log-probabilities.

It answers ``GET /v1/models`` and ``POST /v1/chat/completions``, and tells of its weights as ``agent.server_card`` reads it. What
it does not know in a request it ignores, but for what it cannot do.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import transformers

from agent.server_card import FIELD
from sandbox.errors import EnvironmentFault, UsageError, WarpsmithError
from trainer.policy.model import PolicyModel
from trainer.rollout.answer_text import AnswerText, CallText, call_json
from trainer.rollout.asked import Asked, understood
from trainer.rollout.conversations import Conversations
from trainer.rollout.detokenizing import Detokenizer
from trainer.rollout.drawing import end_ids
from trainer.rollout.generation import Generator, OutOfMemory, Request, Token, Turn

HOST = "127.0.0.1"
_PATH = "/v1/chat/completions"
_SILENT_TOKENS = 64
"""So many tokens go out at the latest, also where nothing can be shown yet, as within a tool call."""


@dataclass(frozen=True)
class Weights:
    """Which weights are served: a name that changes whenever they do, and the number of updates behind them."""

    name: str
    version: int = -1


@dataclass(frozen=True)
class ServerSettings:
    """How a policy is served.

    Attributes:
        name: Of the model, as requests call it.
        port: Where it listens; 0 for any free one.
        context: Tokens of prompt and answer at most.
        batch: Answers that are written at once.
        kept_tokens: Of conversations whose keys and values stay on the device.
    """

    name: str
    port: int = 0
    context: int = 32_768
    batch: int = 8
    kept_tokens: int = 262_144


class PolicyServer:
    """Serves a policy until it is closed; a context manager.

    Args:
        policy: Whoever changes its weights does so within ``new_weights``.
        weights: Which they are.
        turn: Gives the device to write answers on, see ``trainer.rollout.turns``.
        settings: See there.

    Raises:
        EnvironmentFault: The port is taken.
    """

    def __init__(self, policy: PolicyModel, weights: Weights, turn: Turn, settings: ServerSettings) -> None:
        self.policy = policy
        self.settings = settings
        self.weights = weights
        self.ends = end_ids(policy)
        self.conversations = Conversations(policy.tokenizer, self.ends)
        self.generator = Generator(policy, self.ends, turn, batch=settings.batch, kept_tokens=settings.kept_tokens)
        try:
            self._http = _Http((HOST, settings.port), self)
        except OSError as error:
            self.generator.close()
            raise EnvironmentFault(
                f"The policy cannot be served: {error.strerror}.",
                where=f"port {settings.port}",
                next_step="Name another one with --port.",
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, name="policy server", daemon=True)
        self._thread.start()

    def __enter__(self) -> PolicyServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        """Its address, as ``--api-base`` takes it."""
        return f"http://{HOST}:{self._http.server_address[1]}/v1"

    @contextmanager
    def new_weights(self, weights: Weights) -> Iterator[None]:
        """Hold all answers while the policy changes; from then on it goes by this name."""
        with self.generator.new_weights():
            yield
            self.weights = weights

    def close(self) -> None:
        """End it; answers that are being written are broken off."""
        self._http.shutdown()
        self._http.server_close()
        self.generator.close()
        self._thread.join()

    def card(self) -> dict[str, Any]:
        """Return the model's entry in the list of models."""
        return {
            "id": self.settings.name,
            "object": "model",
            "owned_by": "warpsmith",
            "max_model_len": self.settings.context,
            FIELD: self.identity(),
        }

    def identity(self) -> dict[str, Any]:
        """Return what tells these weights from all others; see ``agent.server_card``."""
        hashes = self.policy.hashes
        return {
            "weights": self.weights.name,
            "version": self.weights.version,
            "tokenizer_sha256": hashes.tokenizer_sha256,
            "chat_template_sha256": hashes.chat_template_sha256,
            "engine": f"transformers {transformers.__version__}",
            "dtype": str(self.policy.dtype).removeprefix("torch."),
            "logprobs": "processed",
        }


class _Answer:
    """One answer on its way: what was drawn, what that says, and what is still to be sent."""

    def __init__(self, server: PolicyServer, asked: Asked) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(8)}"
        self._server = server
        self._asked = asked
        self._tokens: list[Token] = []
        self._unsent = 0
        self._words = Detokenizer(server.policy.tokenizer)
        self._said = AnswerText()
        self._text = ""
        self._stopped = False
        prompt = server.conversations.prompt(asked.messages, asked.tools)
        room = server.settings.context - len(prompt)
        if room < 1:
            raise UsageError(
                f"This model's maximum context length is {server.settings.context} tokens, and the prompt has {len(prompt)}."
            )
        most = min(room, asked.sampling.max_tokens or room)
        self._told_of_prompt: dict[str, Any] = {FIELD: server.identity()} | (
            {"prompt_token_ids": prompt} if asked.ids_wanted else {}
        )
        self._request = server.generator.submit(Request(prompt, asked.sampling, most))

    def chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks of the stream, the first of which tells of the prompt, up to the last with usage."""
        tokens = self._request.tokens()
        first = next(tokens)  # before anything is sent: what cannot be answered gets a status of its own
        yield self._chunk({"role": "assistant", "content": ""}, told=self._told_of_prompt)
        for token in itertools.chain([first], tokens):
            yield from map(self._piece, self._take(token))
            if self._stopped:
                self._request.cancelled = True
                break
            if len(self._tokens) - self._unsent >= _SILENT_TOKENS:
                yield self._chunk({"content": ""})
        left = [] if self._stopped else [*self._heard(self._words.rest()), *self._said.end()]
        yield from map(self._piece, left)
        self._remember()
        yield self._chunk({}, self._finish_reason)
        if self._asked.usage_wanted:
            yield {**self._head, "choices": [], "usage": self._usage}

    def whole(self) -> dict[str, Any]:
        """Return the answer in one piece."""
        for _ in self.chunks():
            pass
        choice = {"index": 0, "message": self._said.message(self.id), "finish_reason": self._finish_reason}
        choice |= self._told_of(self._tokens)
        head = {**self._head, "object": "chat.completion", **self._told_of_prompt}
        return {**head, "choices": [choice], "usage": self._usage}

    @property
    def _head(self) -> dict[str, Any]:
        name = self._server.settings.name
        return {"id": self.id, "object": "chat.completion.chunk", "created": int(time.time()), "model": name}

    @property
    def _finish_reason(self) -> str:
        ended = self._stopped or (bool(self._tokens) and self._tokens[-1].id in self._server.ends)
        if not ended:
            return "length"
        return "tool_calls" if self._said.calls else "stop"

    @property
    def _usage(self) -> dict[str, Any]:
        read, written = len(self._request.prompt), len(self._tokens)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": self._request.cached},
        }

    def _take(self, token: Token) -> Iterator[str | CallText]:
        self._tokens.append(token)
        if token.id not in self._server.ends:
            yield from self._heard(self._words.add(token.id))

    def _heard(self, text: str) -> Iterator[str | CallText]:
        """Yield what a piece of text says, up to a stop string if there is one."""
        before, self._text = len(self._text), self._text + text
        found = [at for stop in self._asked.sampling.stop if (at := self._text.find(stop)) >= 0]
        self._stopped = bool(found)
        yield from self._said.add(self._text[before : min(found)] if found else text)
        if found:
            yield from self._said.end()

    def _piece(self, said: str | CallText) -> dict[str, Any]:
        if isinstance(said, str):
            return self._chunk({"content": said})
        index = len(self._said.calls) - 1
        return self._chunk({"tool_calls": [{"index": index, **call_json(said, f"{self.id}_{index}")}]})

    def _chunk(
        self, delta: dict[str, Any], finish: str | None = None, told: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        new, self._unsent = self._tokens[self._unsent :], len(self._tokens)
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **self._told_of(new)}
        return {**self._head, **(told or {}), "choices": [choice]}

    def _told_of(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Return what was asked for of these tokens."""
        told: dict[str, Any] = {}
        if self._asked.ids_wanted:
            told["token_ids"] = [token.id for token in tokens]
        if self._asked.logprobs_wanted:
            texts = self._server.policy.tokenizer.convert_ids_to_tokens([token.id for token in tokens])
            content = [
                {"token": text, "logprob": token.logprob, "bytes": None, "top_logprobs": []}
                for text, token in zip(texts, tokens, strict=True)
            ]
            told["logprobs"] = {"content": content}
        return told

    def _remember(self) -> None:
        ids = [*self._request.prompt, *(token.id for token in self._tokens)]
        if not self._stopped:  # what was drawn says more than what was sent
            message = self._said.message(self.id)
            self._server.conversations.remember(self._asked.messages, self._asked.tools, message, ids)

    def give_up(self) -> None:
        """Let nothing more be drawn: nobody listens."""
        self._request.cancelled = True


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], policy: PolicyServer) -> None:
        self.policy = policy
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print no line a request."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") != "/v1/models":
            return self._send(404, _error(f"There is nothing at {self.path}.", "not_found_error"))
        return self._send(200, {"object": "list", "data": [self.server.policy.card()]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != _PATH:
            return self._send(404, _error(f"There is nothing at {self.path}.", "not_found_error"))
        try:
            asked = understood(json.loads(body))
            answer = _Answer(self.server.policy, asked)
            if not asked.stream:
                return self._send(200, answer.whole())
            chunks = answer.chunks()
            first = next(chunks)
        except ValueError as error:
            return self._send(400, _error(f"The request is no JSON: {error}.", "invalid_request_error"))
        except WarpsmithError as error:
            return self._send(_status(error), _error(str(error), "server_error"))
        return self._stream(answer, itertools.chain([first], chunks))

    def _stream(self, answer: _Answer, chunks: Iterator[dict[str, Any]]) -> None:
        """Send chunks as events; what goes wrong once the answer has begun is told as the last of them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for chunk in chunks:
                self._event(json.dumps(chunk))
            self._event("[DONE]")
        except WarpsmithError as error:
            self._event(json.dumps(_error(str(error), "server_error", _status(error))))
        except OSError:
            answer.give_up()

    def _event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()

    def _send(self, status: int, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _error(what: str, kind: str, code: int | None = None) -> dict[str, Any]:
    return {"error": {"message": what, "type": kind, "code": code}}


def _status(error: WarpsmithError) -> int:
    """Return how a client is told: its own fault, a conversation too long for this device, or something that may pass."""
    if isinstance(error, OutOfMemory):
        return 503 if error.at_once > 1 else 413
    return 400 if isinstance(error, UsageError) else 503
