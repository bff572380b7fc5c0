"""What a run may cost, what it has cost so far, and when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from agent.events import EndReason, ModelTurn, RunStarted

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
    """What answers of a model have cost.

    ``dollars`` are those of answers with a price; ``unpriced`` counts those without one, and ``uncounted`` those whose tokens
    no provider counted, so that ours did. A replayed answer is neither: nobody was asked.
    """

    answers: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0
    uncounted: int = 0

    def after(self, turn: ModelTurn, estimated: Callable[[], int]) -> Spent:
        """Return what is spent once this answer is counted; ``estimated`` counts its tokens where the provider did not."""
        counted, asked = turn.usage.get("total_tokens", 0), bool(turn.usage or turn.identity)
        return Spent(
            self.answers + 1,
            self.tokens + (counted or (estimated() if asked else 0)),
            self.dollars + (turn.cost_usd or 0.0),
            self.unpriced + (turn.cost_usd is None and asked),
            self.uncounted + (not counted and asked),
        )

    def plus(self, other: Spent) -> Spent:
        """Return both together."""
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def since(self, before: Spent) -> Spent:
        """Return what was spent beyond an earlier sum."""
        return Spent(*(getattr(self, f.name) - getattr(before, f.name) for f in fields(self)))


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

    @classmethod
    def stored(cls, event: RunStarted) -> Limits:
        """Return those that a run began with."""
        budget = event.budget
        return cls(
            event.turn_limit, int(budget.get("tokens", 0)), budget.get("cost_usd", 0.0), budget.get("minutes", 0.0)
        )

    def after(self, spent: Spent) -> Limits:
        """Return what is left of them, the minutes whole: one answer or token at least, for 0 would be no limit."""
        return replace(
            self,
            answers=max(1, self.answers - spent.answers),
            tokens=max(1, self.tokens - spent.tokens) if self.tokens else 0,
            dollars=max(1e-6, self.dollars - spent.dollars) if self.dollars else 0.0,
        )

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
        self._paused_at = 0.0
        self._pauses = 0
        self._deadline: asyncio.Timeout | None = None
        self._warned = 0

    @property
    def minutes(self) -> float:
        """How long the run has taken, without its pauses."""
        return ((self._paused_at if self._pauses else time.monotonic()) - self._started) / 60

    def deadline(self) -> asyncio.Timeout:
        """Return a timeout at the end of the run's time; it stands still in pauses."""
        self._deadline = asyncio.timeout(self._left_seconds())
        return self._deadline

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let time pass that is not the run's: the developer is being asked."""
        if not self._pauses:
            self._paused_at = time.monotonic()
            self._move_deadline(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._started += time.monotonic() - self._paused_at
                self._move_deadline(self._left_seconds())

    def _left_seconds(self) -> float | None:
        return max(0.0, 60 * (self.limits.minutes - self.minutes)) if self.limits.minutes else None

    def _move_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    def over(self, spent: Spent) -> tuple[EndReason, str] | None:
        """Return why the run is over, and in words; None while it may go on."""
        for name, used, limit in self._used(spent):
            if used >= limit:
                return _ENDS[name], f"The run used {_said(used)} of {_said(limit)} {name}."
        if self.limits.dollars and spent.unpriced > self._before.unpriced:
            return EndReason.COST_LIMIT, "An answer came without a price, so that the cost cannot be limited any more."
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
        used, limits = spent.since(self._before), self.limits
        yield "answers", used.answers, limits.answers
        for name, amount, limit in (
            ("tokens", used.tokens, limits.tokens),
            ("dollars", used.dollars, limits.dollars),
            ("minutes", self.minutes, limits.minutes),
        ):
            if limit:
                yield name, amount, limit


def _said(number: float) -> str:
    return f"{number:,.2f}".rstrip("0").rstrip(".")
