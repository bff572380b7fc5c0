"""Drawing the next token of several answers at once, each with settings and randomness of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.policy.model import PolicyModel


@dataclass(frozen=True)
class Sampling:
    """How an answer is sampled; a ``temperature`` of 0 takes the likeliest token."""

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def divisor(self) -> float:
        """What logits are divided by; nothing changes them where the likeliest token is taken anyway."""
        return self.temperature or 1.0


def end_ids(policy: PolicyModel) -> list[int]:
    """Return the ids of the tokens that end an answer, as the model's generation settings and its tokenizer name them."""
    settings = policy.base.generation_config
    named = settings.eos_token_id if settings is not None else None
    several = named if isinstance(named, list) else [named]
    return sorted({int(each) for each in [*several, policy.tokenizer.eos_token_id] if each is not None})


def randomness(sampling: Sampling, read: int, device: torch.device) -> torch.Generator:
    """Return an answer's own source of randomness; with a seed it is the same for the same length of prompt."""
    generator = torch.Generator(device)
    if sampling.seed is None:
        generator.seed()
    else:
        generator.manual_seed((sampling.seed * 1_000_003 + read) % 2**63)
    return generator


def draw(
    logits: Tensor, samplings: Sequence[Sampling], generators: Sequence[torch.Generator]
) -> tuple[list[int], list[float]]:
    """Draw a token a row.

    Args:
        logits: ``[rows, vocabulary]``, of any floating type.
        samplings: Of each row.
        generators: Of each row.

    Returns:
        The tokens, and their log-probabilities under the very distribution that they were drawn from (temperature and
        top_p included); where the likeliest was taken, those of the model.
    """
    divisors = torch.tensor([each.divisor for each in samplings], device=logits.device)
    logprobs = torch.log_softmax(logits.float() / divisors[:, None], dim=-1)
    for row, sampling in enumerate(samplings):
        if sampling.top_p < 1.0:
            logprobs[row] = _nucleus(logprobs[row], sampling.top_p)
    noise = torch.stack(
        [
            _gumbel(logprobs[row], generator) if sampling.temperature else torch.zeros_like(logprobs[row])
            for row, (sampling, generator) in enumerate(zip(samplings, generators, strict=True))
        ]
    )
    chosen = (logprobs + noise).argmax(dim=-1)
    return chosen.tolist(), logprobs.gather(1, chosen[:, None])[:, 0].tolist()


def _gumbel(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return noise that makes the largest sum a draw from the softmax (Gumbel-max)."""
    return -torch.empty_like(like).exponential_(generator=generator).log()


def _nucleus(logprobs: Tensor, top_p: float) -> Tensor:
    """Return the likeliest tokens' log-probabilities, up to a share of ``top_p`` together; all others are impossible."""
    sorted_, order = logprobs.sort(descending=True)
    before = sorted_.exp().cumsum(0) - sorted_.exp()
    left = torch.full_like(logprobs, -torch.inf)
    kept = before < top_p
    left[order[kept]] = sorted_[kept]
    return torch.log_softmax(left, dim=-1)
