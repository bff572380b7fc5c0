"""A provider of language models on localhost whose answers are scripted, one reply a request.

It speaks real HTTP, records every request it got, and can fail in the ways providers do: an error status with headers, an
error in the middle of a stream, a connection dropped in the middle of an answer, tool calls whose arguments are no JSON, an
answer that takes its time. What is on the wire is a dialect's matter, one file each in ``tests.servers.dialects``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Call:
    """A tool call. ``arguments`` is sent as JSON, or as it is when it is text (which need not parse)."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""
    signature: str = ""

    @property
    def text(self) -> str:
        """The arguments as text."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Tokens:
    """What an answer is said to have cost; ``input`` is all of it, or 0 for a quarter of the request's characters."""

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 10
    reasoning: int = 0


@dataclass(frozen=True)
class Reply:
    """One scripted answer.

    Attributes:
        text, reasoning, calls: What is streamed, in that order reversed for reasoning (it comes first).
        signature: What proves the reasoning to the provider that gave it.
        finish: Finish reason in the dialect's own words; derived when empty; ``none`` ends the stream without one.
        tokens: The usage told; null for none.
        pause: Seconds between two chunks.
        drop_after: Cut the connection after this many chunks.
        fail_after: Tell ``error`` in the stream after this many chunks, and end it.
        status, headers, error: An error answer in the dialect's form instead.
        extra: Put into each choice of an OpenAI chunk.
    """

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Call] = ()
    signature: str = ""
    finish: str = ""
    tokens: Tokens | None = Tokens()
    pause: float = 0.0
    drop_after: int | None = None
    fail_after: int | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


Scripted = Reply | Callable[[dict[str, Any]], Reply]


class Dialect(ABC):
    """What a provider puts on the wire.

    Attributes:
        model_list: What is answered to a GET of the models; null for 404.
        unanswered: End of a path that a client may also ask and that is answered 404.
    """

    content_type = "text/event-stream"
    model_list: dict[str, Any] | None = None
    unanswered = "/none"

    @abstractmethod
    def frames(self, reply: Reply, request: dict[str, Any]) -> Iterator[bytes]:
        """Yield what a whole answer is sent as, piece by piece."""

    @abstractmethod
    def failure(self, reply: Reply) -> bytes:
        """Return the piece that tells an error in the middle of a stream."""

    @abstractmethod
    def error(self, reply: Reply) -> dict[str, Any]:
        """Return the body of an error answer."""

    @abstractmethod
    def refusal(self, request: dict[str, Any]) -> Reply | None:
        """Return what the provider answers to a request that it does not take, or null."""


class ProviderServer:
    """Serves the script on a free port; a context manager.

    Attributes:
        requests: The body of every request, in order; ``paths`` and ``headers`` go with it.
        times: ``time.monotonic()`` at which each came.
    """

    def __init__(self, dialect: Dialect, script: Sequence[Scripted]) -> None:
        self.dialect = dialect
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def next_reply(self, request: dict[str, Any], path: str, headers: dict[str, str]) -> Reply:
        """Record the request and return what the script says to it; an exhausted script answers 400."""
        with self._lock:
            self.requests.append(request)
            self.paths.append(path)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            if refused := self.dialect.refusal(request):
                return refused
            if not self.script:
                return Reply(status=400, error={"message": "the script is over", "type": "invalid_request_error"})
            scripted = self.script.pop(0)
        return scripted if isinstance(scripted, Reply) else scripted(request)


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of a size."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def counted(tokens: Tokens, request: dict[str, Any]) -> int:
    """Return the input tokens told for a request."""
    return tokens.input or len(json.dumps(request.get("messages") or request)) // 4


def sse(data: dict[str, Any], event: str = "") -> bytes:
    """Return one server-sent event."""
    return (f"event: {event}\n" if event else "").encode() + f"data: {json.dumps(data)}\n\n".encode()


def _handler(server: ProviderServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Stay silent."""

        def handle(self) -> None:
            with contextlib.suppress(ConnectionResetError):  # a client that gave up
                super().handle()

        def do_GET(self) -> None:
            body = server.dialect.model_list if self.path.endswith("/models") else None
            self._json(200 if body else 404, body or {"error": {"message": "not found"}}, {})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request.setdefault(
                "model", self.path.rpartition("/models/")[2].partition(":")[0]
            )  # Google's is in the path
            reply = server.next_reply(request, self.path, {k.lower(): v for k, v in self.headers.items()})
            try:
                if reply.status != 200:
                    self._json(reply.status, server.dialect.error(reply), reply.headers)
                else:
                    self._stream(reply, request)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _json(self, status: int, data: dict[str, Any], headers: dict[str, str]) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            plain = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            for name, value in {**plain, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, reply: Reply, request: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", server.dialect.content_type)
            self.send_header("Transfer-Encoding", "chunked")  # so that an end before its time can be told from the end
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for number, frame in enumerate(server.dialect.frames(reply, request)):
                if number == reply.drop_after:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                if number == reply.fail_after:
                    self._send(server.dialect.failure(reply))
                    break
                self._send(frame)
                time.sleep(reply.pause)
            self.wfile.write(b"0\r\n\r\n")

        def _send(self, frame: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            self.wfile.flush()

    return Handler
