"""What a run may cost, what it has cost so far, and when it is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.events import EndReason, ModelTurn

if TYPE_CHECKING:
    from agent.settings import Settings

WARN_AT = (0.75, 0.9)
"""Shares of the scarcest limit at which the model is told, so that it ends well."""
_ENDS = {
    "answers": EndReason.TURN_LIMIT,
    "tokens": EndReason.TOKEN_LIMIT,
    "dollars": EndReason.COST_LIMIT,
    "minutes": EndReason.TIME_LIMIT,
}
OVER = tuple(_ENDS.values())
"""The reasons of runs that a limit ended."""


@dataclass(frozen=True)
class Spent:
    """What a session has cost.

    ``dollars`` are those of answers with a price; ``unpriced`` counts those without one that a provider counted tokens of: a
    replayed answer costs nothing.
    """

    answers: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    def after(self, turn: ModelTurn) -> Spent:
        """Return what is spent once this answer is counted."""
        return Spent(
            self.answers + 1,
            self.tokens + turn.usage.get("total_tokens", 0),
            self.dollars + (turn.cost_usd or 0.0),
            self.unpriced + (turn.cost_usd is None and bool(turn.usage)),
        )


@dataclass(frozen=True)
class Limits:
    """Limits of one run; 0 for none."""

    answers: int
    tokens: int = 0
    dollars: float = 0.0
    minutes: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Return what the settings say."""
        return cls(settings.turn_limit, settings.token_limit, settings.cost_limit_usd, settings.time_limit_minutes)

    def to_json(self) -> dict[str, float]:
        """Return those but for answers that there are, as ``RunStarted.budget`` holds them."""
        given = {"tokens": self.tokens, "cost_usd": self.dollars, "minutes": self.minutes}
        return {name: limit for name, limit in given.items() if limit}


class Budget:
    """A run's limits, held against what its session has spent since it began.

    Args:
        limits: Of the run.
        before: What the session had spent when the run began.
    """

    def __init__(self, limits: Limits, before: Spent) -> None:
        self.limits = limits
        self._before = before
        self._started = time.monotonic()
        self._warned = 0

    def left_seconds(self) -> float | None:
        """Return how long the run may go on, or None without a limit."""
        return max(0.0, self._started + 60 * self.limits.minutes - time.monotonic()) if self.limits.minutes else None

    def over(self, spent: Spent) -> tuple[EndReason, str] | None:
        """Return why the run is over, and in words; None while it may go on."""
        for name, used, limit in self._used(spent):
            if used >= limit:
                return _ENDS[name], f"The run used {_said(used)} of {_said(limit)} {name}."
        if self.limits.dollars and spent.unpriced > self._before.unpriced:
            return EndReason.COST_LIMIT, "The model has no known price, so that its cost cannot be limited."
        return None

    def warning(self, spent: Spent) -> str:
        """Return what the model is to be told of its budget now; empty where that was told, or there is enough."""
        share, name, used, limit = max((used / limit, name, used, limit) for name, used, limit in self._used(spent))
        reached = sum(share >= level for level in WARN_AT)
        if reached <= self._warned:
            return ""
        self._warned = reached
        return (
            f"{_said(used)} of {_said(limit)} {name} of this run are used. See that the best state so far is in the workspace "
            "and checked in full before the rest is gone."
        )

    def _used(self, spent: Spent) -> Iterator[tuple[str, float, float]]:
        before, limits = self._before, self.limits
        minutes = (time.monotonic() - self._started) / 60
        yield "answers", spent.answers - before.answers, limits.answers
        for name, used, limit in (
            ("tokens", spent.tokens - before.tokens, limits.tokens),
            ("dollars", spent.dollars - before.dollars, limits.dollars),
            ("minutes", minutes, limits.minutes),
        ):
            if limit:
                yield name, used, limit


def _said(number: float) -> str:
    return f"{number:,.2f}".rstrip("0").rstrip(".")
