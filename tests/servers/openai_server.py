"""An OpenAI-compatible chat server on localhost whose answers are scripted, one reply a request.

It speaks real HTTP with server-sent events, records every request it got, and can fail in the ways providers do: an
error status with headers, a connection dropped in the middle of an answer, tool calls whose arguments are no JSON, an
answer that takes its time.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call. ``arguments`` is sent as JSON, or as it is when it is text (which need not parse)."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """One scripted answer.

    Attributes:
        text, reasoning, calls: What is streamed, in that order reversed for reasoning (it comes first).
        finish: Finish reason; derived when empty.
        pause: Seconds between two chunks.
        drop_after: Cut the connection after this many chunks.
        status, headers, error: An error answer in OpenAI's form instead.
    """

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Call] = ()
    finish: str = ""
    pause: float = 0.0
    drop_after: int | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


Scripted = Reply | Callable[[dict[str, Any]], Reply]


class OpenAIServer:
    """Serves the script on a free port; a context manager.

    Attributes:
        requests: The body of every chat request, in order.
        times: ``time.monotonic()`` at which each came.
    """

    def __init__(self, script: Sequence[Scripted]) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def next_reply(self, request: dict[str, Any]) -> Reply:
        """Record the request and return what the script says to it; an exhausted script answers 400."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.times.append(time.monotonic())
        if number >= len(self.script):
            return Reply(
                status=400,
                error={"message": f"the script has {len(self.script)} replies", "type": "invalid_request_error"},
            )
        scripted = self.script[number]
        return scripted if isinstance(scripted, Reply) else scripted(request)


def chunks_of(reply: Reply) -> list[dict[str, Any]]:
    """Cut a reply into the deltas of a stream: text by words, each call's arguments in three pieces, interleaved."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.reasoning, 8)]
    deltas += [{"content": piece} for piece in _pieces(reply.text, 8)]
    bodies = []
    for index, call in enumerate(reply.calls):
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        head = {"index": index, "id": call.id or f"call_{index}_{call.name}", "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
        bodies.append((index, list(_pieces(arguments, max(1, len(arguments) // 3)))))
    for step in range(max((len(pieces) for _, pieces in bodies), default=0)):
        for index, pieces in bodies:
            if step < len(pieces):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": pieces[step]}}]})
    return deltas


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Stay silent."""

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.next_reply(request)
            try:
                if reply.status != 200:
                    self._error(reply)
                else:
                    self._stream(reply, request)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _error(self, reply: Reply) -> None:
            body = json.dumps({"error": reply.error or {"message": "scripted", "type": "server_error"}}).encode()
            self.send_response(reply.status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **reply.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, reply: Reply, request: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
            for number, delta in enumerate(chunks_of(reply)):
                if number == reply.drop_after:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self._send({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **reply.extra}]})
                time.sleep(reply.pause)
            finish = reply.finish or ("tool_calls" if reply.calls else "stop")
            self._send({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            prompt = len(json.dumps(request["messages"])) // 4
            usage = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
            self._send({**head, "choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, chunk: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

    return Handler
