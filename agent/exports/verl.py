"""Rows for verl: tasks to roll out, and token rows of sessions whose server gave token ids and log-probabilities.

Both load with verl's dataset of prompts, from JSON lines or parquet. A token row is what an agent loop hands back there:
``prompt_ids``, ``response_ids``, ``response_mask`` (1 for what the model wrote, 0 for what it was told),
``rollout_log_probs`` (0 where the mask is) and ``reward``, which belongs on the last token.

Rows follow token ids, not text: a prompt that does not begin with the ids of the prompt and the answer before starts a
new row, in which all that was copied is prompt. A row ends with a token of the model's, because verl drops a reward that
lies on any other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.exports.evidence import facts
from agent.exports.plain import plain
from agent.exports.trajectory import Note, Trajectory, Turn, answered

SOURCE = "warpsmith"


def task_rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield a row for every task that sessions were begun on; sessions with the same opening are one."""
    seen: set[str] = set()
    for trajectory in answered(trajectories, note):
        if trajectory.turns[0].prompt_sha256 in seen:
            note("A session was begun on a task that is exported already.")
            continue
        seen.add(trajectory.turns[0].prompt_sha256)
        yield _row(trajectory, trajectory.turns[0], len(seen) - 1)


def token_rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield a row a stretch of tokens that go on from one another; every one has the reward of the whole session."""
    index = 0
    for trajectory in answered(trajectories, note):
        stretches = [stretch for stretch in _stretches(trajectory, note) if stretch.ended_by_the_model()]
        reward = trajectory.reward
        if reward is None:
            note("Nobody can say what a session earns: it was not judged, or the machine was at fault.")
            continue
        for number, stretch in enumerate(stretches, 1):
            row = _row(trajectory, stretch.first, index, agent="warpsmith_replay")
            row["extra_info"] |= {"segment": number, "segments": len(stretches), "spans": json.dumps(stretch.spans)}
            yield {
                **row,
                "prompt_ids": stretch.prompt,
                "response_ids": stretch.response,
                "response_mask": stretch.mask,
                "rollout_log_probs": stretch.logprobs,
                "reward": float(reward),
                "num_turns": len(stretch.spans),
            }
            index += 1


@dataclass
class _Stretch:
    """Token ids that go on from one another; ``spans`` says whose they are, a turn each."""

    first: Turn
    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)

    def take(self, turn: Turn, prompt: list[int]) -> bool:
        """Add an answer, if its prompt goes on from what is here."""
        before = self.prompt + self.response
        if prompt[: len(before)] != before:
            return False
        told, event = prompt[len(before) :], turn.event
        written = event.token_ids or []
        start = len(self.response) + len(told)
        self.response += told + written
        self.mask += [0] * len(told) + [1] * len(written)
        self.logprobs += [0.0] * len(told) + list(event.logprobs or [])
        span = {"turn": event.turn, "start": start, "end": len(self.response), "finish_reason": event.finish_reason}
        self.spans.append({**span, "model": event.model, "sampling": event.sampling, "identity": event.identity})
        return True

    def ended_by_the_model(self) -> bool:
        """Cut off what the model did not write at the end; tell whether it wrote anything."""
        length = len(self.mask)
        while length and not self.mask[length - 1]:
            length -= 1
        del self.response[length:], self.mask[length:], self.logprobs[length:]
        self.spans = [span for span in self.spans if span["start"] < length]
        return length > 0


def _stretches(trajectory: Trajectory, note: Note) -> list[_Stretch]:
    found: list[_Stretch] = []
    current: _Stretch | None = None
    for turn, prompt in zip(trajectory.turns, trajectory.prompt_ids(), strict=True):
        if prompt is None or not _whole(turn):
            note("An answer came without token ids or log-probabilities.")
            current = None
        elif current is None or not current.take(turn, prompt):
            current = _Stretch(turn, prompt)
            current.take(turn, prompt)
            found.append(current)
    return found


def _whole(turn: Turn) -> bool:
    """Whether a turn has an id and a finite log-probability for every token it wrote."""
    ids, logprobs = turn.event.token_ids, turn.event.logprobs
    if ids is None or logprobs is None or len(ids) != len(logprobs):
        return False
    return all(isinstance(value, int | float) and math.isfinite(value) for value in logprobs)


def _row(trajectory: Trajectory, turn: Turn, index: int, agent: str = "warpsmith") -> dict[str, Any]:
    """Return the columns that every row has. Objects whose keys differ from row to row are JSON text."""
    return {
        "data_source": SOURCE,
        "ability": "kernels",
        "agent_name": agent,
        "prompt": plain(turn.messages),
        "reward_model": {"style": "rule", "ground_truth": trajectory.source_sha256},
        "extra_info": {
            "index": index,
            **facts(trajectory),
            "tools": json.dumps(turn.tools),
            "spec": json.dumps(trajectory.session.task.to_json()),
        },
    }
