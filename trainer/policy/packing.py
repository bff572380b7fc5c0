"""Segments of different lengths side by side in one row, so that hardly any computation is spent on padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.data.episode import Segment

_GRAIN = 16
"""Lengths are multiples of this."""


@dataclass(frozen=True)
class PackedBatch:
    """One row of segments. What is told per action goes segment by segment, position by position.

    Attributes:
        ids: int64, (tokens,).
        positions: int64, (tokens,); they begin anew at 0 with each segment.
        actions: int64, (actions,); where in the row the actions stand.
        temperature: float32, (actions,); what each was sampled at.
        lengths: Tokens of each segment, those after its last action that round it up included.
        counts: Actions of each segment.
        segments: Which of the segments given to `pack` they are.
    """

    ids: Tensor
    positions: Tensor
    actions: Tensor
    temperature: Tensor
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    segments: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """The length of the row."""
        return len(self.ids)

    @property
    def targets(self) -> Tensor:
        """The ids of the actions, (actions,)."""
        return self.ids[self.actions]

    def to(self, device: torch.device | str) -> PackedBatch:
        """Return the same row on a device."""
        return replace(
            self,
            ids=self.ids.to(device),
            positions=self.positions.to(device),
            actions=self.actions.to(device),
            temperature=self.temperature.to(device),
        )


def pack(segments: Sequence[Segment], limit: int, temperatures: Sequence[float] | None = None) -> list[PackedBatch]:
    """Put segments into as few rows as first-fit by falling length finds; those of one length stand side by side in a row.

    What follows the last action of a segment is left out, since nobody reads what the model would make of it, but for what
    rounds its length up, so that many are of one length; a segment without an action is in no row.

    Args:
        segments: In any order.
        limit: How many tokens a row holds; a segment longer than that has a row of its own, and is never cut.
        temperatures: What the actions of each segment were sampled at; 1 where none are given.
    """
    lengths = [_rounded(int(np.flatnonzero(segment.action)[-1]) + 1) if segment.actions else 0 for segment in segments]
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(segments)), key=lambda index: -lengths[index]):
        if not lengths[index]:
            continue
        fitting = next((row for row, left in enumerate(room) if lengths[index] <= left), None)
        if fitting is None:
            rows.append([index])
            room.append(limit - lengths[index])
        else:
            rows[fitting].append(index)
            room[fitting] -= lengths[index]
    return [_row(segments, row, lengths, temperatures) for row in rows]


def _row(
    segments: Sequence[Segment], row: list[int], lengths: list[int], temperatures: Sequence[float] | None
) -> PackedBatch:
    cut = [lengths[index] for index in row]
    action = np.concatenate([_fitted(segments[index].action, lengths[index]) for index in row])
    counts = [segments[index].actions for index in row]
    sampled = [1.0 if temperatures is None else temperatures[index] for index in row]
    ids = np.concatenate([_fitted(segments[index].ids, lengths[index]) for index in row])
    return PackedBatch(
        ids=torch.from_numpy(ids.astype(np.int64)),
        positions=torch.cat([torch.arange(length) for length in cut]),
        actions=torch.from_numpy(np.flatnonzero(action)),
        temperature=torch.repeat_interleave(torch.tensor(sampled), torch.tensor(counts)),
        lengths=tuple(cut),
        counts=tuple(counts),
        segments=tuple(row),
    )


def _rounded(length: int) -> int:
    return -(-length // _GRAIN) * _GRAIN


def _fitted(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Cut an array off, or fill it up with zeros."""
    cut = values[:length]
    return np.pad(cut, (0, length - len(cut)))
