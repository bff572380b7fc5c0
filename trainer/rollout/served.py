"""A policy that answers: its weights by name, its tokenizer, the conversations it knows, and the thread that writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import transformers

from agent.server_card import FIELD
from trainer.policy.model import PolicyModel
from trainer.rollout.conversations import Conversations
from trainer.rollout.drawing import end_ids
from trainer.rollout.generation import Generator, Turn


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


class ServedPolicy:
    """Answers with a policy until it is closed.

    Args:
        policy: Whoever changes its weights does so within ``new_weights``.
        weights: Which they are.
        turn: Gives the device to write answers on, see ``trainer.rollout.turns``.
        settings: See there.
    """

    def __init__(self, policy: PolicyModel, weights: Weights, turn: Turn, settings: ServerSettings) -> None:
        self.policy = policy
        self.settings = settings
        self.weights = weights
        self.ends = end_ids(policy)
        self.conversations = Conversations(policy.tokenizer, self.ends)
        self.generator = Generator(policy, self.ends, turn, batch=settings.batch, kept_tokens=settings.kept_tokens)

    @contextmanager
    def new_weights(self, weights: Weights) -> Iterator[None]:
        """Hold all answers while the policy changes; from then on it goes by this name."""
        with self.generator.new_weights():
            yield
            self.weights = weights

    def close(self) -> None:
        """End it; answers that are being written are broken off."""
        self.generator.close()

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
