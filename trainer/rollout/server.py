"""A policy as an OpenAI-compatible server: chat completions with tools, streamed or whole, with token ids and log-probabilities.

It answers ``GET /v1/models`` and ``POST /v1/chat/completions``, and tells of its weights as ``agent.server_card`` reads it. What
it does not know in a request it ignores, but for what it cannot do.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sandbox.errors import EnvironmentFault, UsageError, WarpsmithError
from trainer.policy.model import PolicyModel
from trainer.rollout.answering import Answer
from trainer.rollout.asked import understood
from trainer.rollout.generation import OutOfMemory, Turn
from trainer.rollout.served import ServedPolicy, ServerSettings, Weights

HOST = "127.0.0.1"
_PATH = "/v1/chat/completions"


class PolicyServer(ServedPolicy):
    """Serves a policy until it is closed; a context manager.

    Args:
        policy, weights, turn, settings: See ``ServedPolicy``.

    Raises:
        EnvironmentFault: The port is taken.
    """

    def __init__(self, policy: PolicyModel, weights: Weights, turn: Turn, settings: ServerSettings) -> None:
        super().__init__(policy, weights, turn, settings)
        try:
            self._http = _Http((HOST, settings.port), self)
        except OSError as error:
            super().close()
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

    def close(self) -> None:
        """End it; answers that are being written are broken off."""
        self._http.shutdown()
        self._http.server_close()
        super().close()
        self._thread.join()


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
            answer = Answer(self.server.policy, asked)
            if not asked.stream:
                return self._send(200, answer.whole())
            chunks = answer.chunks()
            first = next(chunks)
        except ValueError as error:
            return self._send(400, _error(f"The request is no JSON: {error}.", "invalid_request_error"))
        except WarpsmithError as error:
            return self._send(_status(error), _error(str(error), "server_error"))
        return self._stream(answer, itertools.chain([first], chunks))

    def _stream(self, answer: Answer, chunks: Iterator[dict[str, Any]]) -> None:
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
