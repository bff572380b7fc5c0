"""A policy behind a server that tells nothing of its weights, in the form that vLLM streams::

    python -m tests.trainer.rollout.plain_server FOLDER --name NAME --port PORT

The answers are those of our own server. The first chunk of a stream has the role and ``prompt_token_ids``, every later one the
``token_ids`` and log-probabilities of what it says, also where that is nothing yet; a token is told as ``token_id:N``.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent.server_card import FIELD
from trainer.policy.model import load_policy
from trainer.rollout.served import ServerSettings, Weights
from trainer.rollout.server import HOST, PolicyServer


@contextmanager
def turn(_: str) -> Iterator[float]:
    """Give the device for a while: nobody else wants it."""
    yield time.monotonic() + 0.1


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk, or the list of models, as a server of another make writes it."""
    told = {key: value for key, value in data.items() if key != FIELD}
    if data["object"] == "list":
        return {**told, "data": [{**plain({"object": "model", **card}), "owned_by": "vllm"} for card in data["data"]]}
    for choice in told.get("choices", ()):
        ids = choice.pop("token_ids", None) or []
        entries = (choice.pop("logprobs", None) or {"content": []})["content"]
        named = [{**entry, "token": f"token_id:{token}"} for entry, token in zip(entries, ids, strict=True)]
        choice |= {"logprobs": {"content": named} if named else None, "stop_reason": None}
        choice |= {"token_ids": ids} if ids else {}
    return told


class Front(BaseHTTPRequestHandler):
    """Passes on what is asked, and what is answered line by line."""

    behind = ""

    def log_message(self, *_: Any) -> None:
        """Print no line a request."""

    def do_GET(self) -> None:
        self._pass_on(None)

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass_on(self, body: bytes | None) -> None:
        try:
            answer = urllib.request.urlopen(urllib.request.Request(f"{self.behind}{self.path}", body))
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            for line in answer:
                self.wfile.write(_plain_line(line))
                self.wfile.flush()


def _plain_line(line: bytes) -> bytes:
    mark, found, data = line.partition(b"{")
    if not found:
        return line
    told = json.loads(found + data)
    return mark + json.dumps(told if "error" in told else plain(told)).encode() + b"\n"


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: exit(0))
    policy = load_policy(options.policy)
    with PolicyServer(policy, Weights("untold"), turn, ServerSettings(options.name)) as server:
        Front.behind = server.base_url.removesuffix("/v1")
        ThreadingHTTPServer((HOST, options.port), Front).serve_forever()


if __name__ == "__main__":
    main()
