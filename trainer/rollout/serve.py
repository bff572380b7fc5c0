"""Serve a policy to the IDE: any model's folder, or a run's latest, as an OpenAI-compatible server on this machine.

It prints the command that opens the IDE with it, and serves until it is told to end (Ctrl-C).
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import torch

from sandbox.counts import count, natural
from sandbox.errors import ExitCode, UsageError
from sandbox.machine.devices import resolve_device
from trainer.policy.model import load_policy
from trainer.rollout.served import ServerSettings, Weights
from trainer.rollout.server import PolicyServer
from trainer.rollout.turns import DeviceTurns
from trainer.run.options import part_of, version_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    parser.add_argument("policy", type=Path, metavar="FOLDER", help="of a model, a checkpoint or a run")
    parser.add_argument("--name", help="what it is called (default: the folder's name)")
    parser.add_argument("--port", type=natural, default=8000, help="0 for any free one (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument(
        "--context", type=count, metavar="N", help="tokens of prompt and answer (default: the model's own)"
    )
    parser.add_argument(
        "--batch", type=count, default=8, metavar="N", help="answers written at once (default: %(default)s)"
    )
    parser.add_argument(
        "--kept-tokens",
        type=count,
        default=262_144,
        metavar="N",
        help="of conversations kept on the device (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until told to end, and return the exit code."""
    folder = part_of(options.policy, "policy")
    if folder is None:
        raise UsageError("This folder holds a critic, and no policy.", where=str(options.policy))
    device = resolve_device(options.device)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    policy = load_policy(folder, dtype=dtype, device=device, checkpointing=False)
    context = options.context or policy.base.config.max_position_embeddings
    settings = ServerSettings(
        name=options.name or options.policy.resolve().name,
        port=options.port,
        context=context,
        batch=options.batch,
        kept_tokens=options.kept_tokens,
    )
    weights = Weights(policy.hashes.weights, version_of(folder))
    turns = DeviceTurns(device, "the policy", lambda: None)
    with PolicyServer(policy, weights, turns.turn, settings) as server:
        print(f"warpsmith open --model openai/{settings.name} --api-base {server.base_url}", flush=True)
        sys.stderr.write(f"Serving {folder} on {device}, {context:,} tokens of context. Ctrl-C ends it.\n")
        signal.pause()
    return ExitCode.OK
