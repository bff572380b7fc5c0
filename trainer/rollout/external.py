"""A server of another make, such as vLLM, started on the policy of the moment and ended when its sessions are over."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import EnvironmentFault, UsageError
from trainer.rollout.server import HOST

VLLM = (
    "vllm serve {policy} --served-model-name {name} --port {port} --enable-auto-tool-choice --tool-call-parser hermes "
    "--generation-config vllm --logprobs-mode processed_logprobs"
)
"""Starts vLLM such that it takes tools, samples from the model's own distribution, and tells the probabilities it drew by."""
_POLL_SECONDS = 0.5
_TOLD_BYTES = 2000
_PATIENCE_SECONDS = 900.0
"""Large models take minutes to load."""


@contextmanager
def external_server(command: str, policy: Path, name: str, log: Path) -> Iterator[str]:
    """Run a server while the context lasts, and give its address as ``--api-base`` takes it.

    Args:
        command: How it is started; ``{policy}``, ``{name}`` and ``{port}`` are filled in.
        policy: Folder of the policy it serves.
        name: What it calls the model.
        log: Gets what it prints.

    Raises:
        UsageError: The command names something else in braces.
        EnvironmentFault: It does not start, or ends before it answers.
    """
    port = _free_port()
    try:
        words = [word.format(policy=policy, name=name, port=port) for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(
            f"The server's command cannot be read: {error}.",
            where=command,
            next_step=f"Write it as in: {VLLM}",
        ) from error
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)
        except OSError as error:
            raise EnvironmentFault(f"The server cannot be started: {error.strerror}.", where=words[0]) from error
    base = f"http://{HOST}:{port}/v1"
    try:
        _await(process, base, log)
        yield base
    finally:
        process.terminate()
        process.wait()


def _await(process: subprocess.Popen[bytes], base: str, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _answers(base):
        if process.poll() is not None or time.monotonic() > deadline:
            what = f"ended with {process.returncode}" if process.returncode is not None else "does not answer"
            said = log.read_bytes()[-_TOLD_BYTES:].decode(errors="replace").strip().splitlines()
            raise EnvironmentFault(
                f"The policy's server {what}. It said last: {said[-1] if said else 'nothing'}", where=str(log)
            )
        time.sleep(_POLL_SECONDS)


def _answers(base: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base}/models", timeout=_POLL_SECONDS * 4) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
