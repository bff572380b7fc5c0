"""A stored session as every export reads it: the answers of the model, what each was told, and what came of it.

The events are folded once. Each answer gets the exact conversation it was asked with; what happened between it and the
next answer (results, attempts, decisions) hangs on it. Where a prompt does not go on from the one before and its answer,
because the conversation was compacted or begun anew, a new segment starts.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from agent import events as ev
from agent.session import Session, open_session
from agent.state import SessionState
from agent.store import NewerFormat, StoredEvent, read_events
from agent.tokens import whole_prompts
from sandbox.errors import UsageError
from sandbox.reward import FAILED

Message = dict[str, Any]
Note = Callable[[str], None]
"""Is told, in one sentence each, what an export leaves out and why."""
E = TypeVar("E", bound=ev.Event)

_UNDELIVERED = ("finished", "model_silent", "context_length")
"""Runs that ended so, or at a limit, and were never judged have failed; others were cut off by somebody else."""


@dataclass(frozen=True)
class Turn:
    """One answer of the model.

    Attributes:
        event: The answer.
        time: When it came, in Unix time.
        messages: The conversation it was asked with, as it was sent.
        tools: The schemas sent with it.
        prompt_sha256: Hash of the two, made again.
        told: Messages that came after it in the same conversation: results of its calls, and what the user said.
        after: What happened until the next answer, in order.
    """

    event: ev.ModelTurn
    time: float
    messages: tuple[Message, ...]
    tools: list[dict[str, Any]]
    prompt_sha256: str
    told: tuple[Message, ...]
    after: tuple[StoredEvent, ...]

    @property
    def proven(self) -> bool:
        """Whether the prompt, made again, is the one that was sent, byte by byte."""
        return self.prompt_sha256 == self.event.prompt_sha256

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The prompt and the answer."""
        return (*self.messages, self.event.message)

    @property
    def attempts(self) -> list[ev.Attempt]:
        """What was judged before the next answer."""
        return list(self.happened(ev.Attempt))

    def happened(self, *kinds: type[E]) -> Iterator[E]:
        """Yield the events of these kinds that came before the next answer."""
        return (stored.event for stored in self.after if isinstance(stored.event, kinds))

    def goes_on_from(self, before: Turn) -> bool:
        """Whether this prompt begins with the other's conversation."""
        begun = before.conversation
        return self.tools == before.tools and self.messages[: len(begun)] == begun


@dataclass(frozen=True)
class Trajectory:
    """A session as far as it is stored; it may still go on.

    Attributes:
        origins: Why the user's messages were said, by their texts: ``UserMessage.origin``, or ``summary`` for one that took the
            place of what was set aside. So those that outlive a shortened conversation are known for what they are.
    """

    session: Session
    turns: tuple[Turn, ...]
    state: SessionState
    ended: str
    origins: Mapping[str, str]

    @cached_property
    def segments(self) -> list[list[Turn]]:
        """The answers in stretches within which every prompt goes on from the one before."""
        found: list[list[Turn]] = []
        for turn in self.turns:
            if found and turn.goes_on_from(found[-1][-1]):
                found[-1].append(turn)
            else:
                found.append([turn])
        return found

    def prompt_ids(self) -> Iterator[list[int] | None]:
        """Yield the token ids of every prompt, null where the server gave none."""
        return (ids for _, ids in whole_prompts(turn.event for turn in self.turns))

    @property
    def reward(self) -> int | None:
        """What the session delivers earns: its best attempt's; null where nobody can say."""
        best = self.state.best
        if best is not None:
            return best.verdict.reward
        if any(judged.verdict.reward is not None for judged in self.state.judged):
            return FAILED
        undelivered = self.ended in _UNDELIVERED or self.ended.endswith("_limit")
        return FAILED if undelivered and not self.state.judged else None

    @property
    def last_reward(self) -> int | None:
        """What the state that was judged last earns."""
        return self.state.judged[-1].verdict.reward if self.state.judged else self.reward

    @property
    def source_sha256(self) -> str:
        """Hash of the reference's source, as the judge saw it; empty before anything was judged."""
        return self.state.judged[0].verdict.task.source_sha256 if self.state.judged else ""

    def origin(self, message: Message) -> str:
        """Return why a message of a conversation was said; empty for one that is not the user's."""
        return self.origins.get(str(message.get("content")), "") if message["role"] == "user" else ""


def answered(trajectories: Iterable[Trajectory], note: Note) -> Iterator[Trajectory]:
    """Yield those in which a model answered."""
    for trajectory in trajectories:
        if trajectory.turns:
            yield trajectory
        else:
            note("A session has no answer of a model.")


def read_trajectory(folder: Path, note: Note) -> Trajectory:
    """Read a session; one of a newer version is read as far as it is known, and that is noted.

    Raises:
        UsageError: The folder holds no session, or one whose events do not say what they should.
    """
    session = open_session(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NewerFormat)
        stored = list(read_events(folder))
    for _ in caught:
        note("An event of a kind that a newer version knows is left out.")
    if session.format != ev.FORMAT:
        note(f"A session has the format {session.format}; this version writes {ev.FORMAT}.")
    try:
        trajectory = _folded(session, stored)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UsageError(
            f"This session's events cannot be understood: {type(error).__name__} {error}.", where=str(folder)
        ) from error
    for turn in trajectory.turns:
        if not turn.proven:
            note("A prompt is not proven to be what was sent: its hash differs.")
    return trajectory


def _folded(session: Session, stored: list[StoredEvent]) -> Trajectory:
    state, turns, ended = SessionState(), [], ""
    starts = [index for index, each in enumerate(stored) if isinstance(each.event, ev.ModelTurn)]
    for each in stored[: starts[0] if starts else None]:
        state.apply(each.event)
    for start, end in itertools.pairwise([*starts, len(stored)]):
        turns.append(_turn(state, stored[start], stored[start + 1 : end]))
    for each in stored:
        if isinstance(each.event, ev.RunStarted | ev.RunEnded):
            ended = each.event.reason if isinstance(each.event, ev.RunEnded) else ""
    return Trajectory(session, tuple(turns), state, ended, _origins(stored))


def _origins(stored: Iterable[StoredEvent]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in stored:
        match each.event:
            case ev.UserMessage(message=message, origin=origin):
                found.setdefault(str(message["content"]), origin)
            case ev.Compacted(messages=messages):
                for message in messages:
                    if message["role"] == "user":
                        found.setdefault(str(message["content"]), "summary")
    return found


def _turn(state: SessionState, answer: StoredEvent, after: list[StoredEvent]) -> Turn:
    """Apply an answer and what came after it, and return the two with the prompt it was asked with."""
    assert isinstance(answer.event, ev.ModelTurn)
    prompt, tools, sha256 = tuple(state.messages), state.tools, state.prompt_sha256
    state.apply(answer.event)
    begun, told = list(state.messages), []
    for each in after:
        state.apply(each.event)
        if state.messages[: len(begun)] == begun:
            told = state.messages[len(begun) :]
    return Turn(answer.event, answer.time, prompt, tools, sha256, tuple(told), tuple(after))
