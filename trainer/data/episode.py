"""The unit of training: a whole session, or a single answer, as token ids with what each of them is.

An episode has one or more segments. Within a segment every prompt goes on from the one before and its answer, token by
token; where the conversation was compacted, or a template wrote an answer otherwise than it was sampled, a new one begins,
in which all that was copied is no action. An episode earns its reward once, on the last action of its last segment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Stage(StrEnum):
    """A stage that an episode may enter."""

    RFT = "rft"
    VALUE = "value"
    PPO = "ppo"


@dataclass(frozen=True)
class Segment:
    """Token ids that go on from one another; all arrays have the length of ``ids``.

    Attributes:
        ids: int32; prompt, answers and what was told between them, in order.
        action: bool; true where the policy wrote the token. The first token is never one.
        logprobs: float32; what the behaviour policy gave each action, under its own sampling; NaN where that is not known
            and at every token that is no action.
        turn: int32; the number of the turn that an action belongs to, counted from 1; 0 elsewhere.
    """

    ids: NDArray[np.int32]
    action: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn: NDArray[np.int32]

    @property
    def actions(self) -> int:
        """How many tokens the policy wrote."""
        return int(self.action.sum())


@dataclass(frozen=True)
class Policy:
    """Who wrote an episode, as far as the server told; empty where it did not.

    ``weights`` changes whenever they do; ``version`` is the number of updates behind them where they are a run's of ours,
    and -1 elsewhere. ``temperature`` is that of the requests; 1 where they named none.
    """

    model: str = ""
    weights: str = ""
    version: int = -1
    tokenizer_sha256: str = ""
    chat_template_sha256: str = ""
    temperature: float = 1.0


@dataclass(frozen=True)
class Episode:
    """One trajectory as the stages read it.

    Attributes:
        id: Of this episode: the session's, or a hash of what a single answer was and was judged to be.
        task: The task's title.
        source_sha256: Of the reference; what episodes of the same task have in common.
        segments: At least one.
        reward: What it earns, decisions of the developer included; null where nobody can say.
        components: What the reward is made of: ``judged`` (-1, 1, 2, 3), ``decision`` (-0.5, 0, 0.5), ``tier``,
            ``taken_from`` (the session and attempt that the same code was judged for; null where it was judged for this one),
            and the measurements that the judge's part can be made of again.
        truncated: Whether it was cut off by a limit and not ended by the policy.
        policy: Who wrote it.
        refused: For every stage that it may not enter, why, in one sentence.
        facts: What else is worth keeping: number of turns, reason of the end, parse errors, format.
    """

    id: str
    task: str
    source_sha256: str
    segments: tuple[Segment, ...]
    reward: float | None
    components: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    policy: Policy = field(default_factory=Policy)
    refused: dict[Stage, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def actions(self) -> int:
        """How many tokens the policy wrote in all."""
        return sum(segment.actions for segment in self.segments)

    def may_enter(self, stage: Stage) -> bool:
        """Whether a stage may learn from it."""
        return stage not in self.refused
