"""A step's episodes as rows for the model, and as one vector of all their actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sandbox.errors import UsageError
from trainer.data.episode import Episode
from trainer.policy.packing import PackedBatch, pack


@dataclass(frozen=True)
class Batch:
    """Episodes of a step. What is known per action is one vector: episode by episode, segment by segment, in order.

    Attributes:
        episodes: Each with at least one action.
        rows: Their segments, packed for the model.
        lengths: int64, (episodes,); actions of each.
    """

    episodes: tuple[Episode, ...]
    rows: tuple[PackedBatch, ...]
    lengths: Tensor

    @classmethod
    def of(cls, episodes: Sequence[Episode], tokens: int, *, sampled: bool = True) -> Batch:
        """Pack episodes.

        Args:
            episodes: Each with at least one action.
            tokens: Most tokens of a row; a longer segment has its own.
            sampled: Whether probabilities are those at the temperature of each episode, or those of the plain model.

        Raises:
            UsageError: An episode has no reward, one that is no number, or no action.
        """
        for episode in episodes:
            _refuse_unfit(episode)
        segments = [segment for episode in episodes for segment in episode.segments]
        heat = [episode.policy.temperature if sampled else 1.0 for episode in episodes for _ in episode.segments]
        lengths = torch.tensor([episode.actions for episode in episodes])
        return cls(tuple(episodes), tuple(pack(segments, tokens, heat)), lengths)

    def part(self, chosen: Sequence[int], tokens: int) -> tuple[Batch, Tensor]:
        """Return a batch of some of the episodes, and where their actions stand among those of this one."""
        ends = self.lengths.cumsum(0)
        where = [torch.arange(int(ends[number] - self.lengths[number]), int(ends[number])) for number in chosen]
        return Batch.of([self.episodes[number] for number in chosen], tokens), torch.cat(where)

    def where(self, row: PackedBatch) -> Tensor:
        """Return where the actions of a row stand among all, int64."""
        return torch.cat([torch.arange(self._starts[number], self._starts[number + 1]) for number in row.segments])

    def parted(self, values: Tensor) -> list[Tensor]:
        """Part what is known per action into one vector for each episode."""
        return list(values.split(self.lengths.tolist()))

    def spread(self, values: Tensor) -> Tensor:
        """Give each action what is known of its episode."""
        return torch.repeat_interleave(values, self.lengths)

    @property
    def actions(self) -> int:
        """How many actions there are in all."""
        return int(self.lengths.sum())

    @property
    def tokens(self) -> int:
        """How many tokens go through the model."""
        return sum(row.tokens for row in self.rows)

    @property
    def rewards(self) -> Tensor:
        """What each episode earned, float64."""
        return torch.tensor([episode.reward for episode in self.episodes], dtype=torch.float64)

    @property
    def behaviour(self) -> Tensor:
        """What the policy that wrote them gave the actions, float32; NaN where that is not known."""
        segments = [segment for episode in self.episodes for segment in episode.segments]
        return torch.from_numpy(np.concatenate([segment.logprobs[segment.action] for segment in segments]))

    @cached_property
    def _starts(self) -> list[int]:
        counts = [segment.actions for episode in self.episodes for segment in episode.segments]
        return [0, *np.cumsum(counts).tolist()]


def _refuse_unfit(episode: Episode) -> None:
    problem = "it has no action" if not episode.actions else ""
    if episode.reward is None or not math.isfinite(episode.reward):
        problem = f"its reward is {episode.reward}"
    if problem:
        raise UsageError(
            f"Nothing can be learnt from an episode: {problem}.",
            where=f"{episode.id}, task {episode.task}",
            next_step="Leave its session out, or judge it again, and ingest anew.",
        )
